"""`gsvc sign`: content credentials for what trained models drew."""

from argparse import ArgumentParser, Namespace

from gsvc.codec.command.arguments import add_overwrite

DESCRIPTION = """Sign a video or image that gsvc decode marked as synthetic, with your key: adds
C2PA content credentials (needs gsvc[c2pa]). gsvc info verifies them."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc sign`."""
    add = parser.add_argument
    add("source", metavar="IN", help="what gsvc decode wrote: .mp4, .mov, .avi, .png or .jpg")
    add("-o", dest="output", metavar="OUT", required=True, help="the signed copy")
    chain = "PEM: your certificate, then those above it"
    add("--cert", dest="certificates", metavar="FILE", required=True, help=chain)
    key = "PEM: its private key, which only you can read"
    add("--key", metavar="FILE", required=True, help=key)
    add_overwrite(parser)


def run(options: Namespace) -> int:
    """Sign a file."""
    from gsvc.codec.api.credentials import sign_file  # late: --help does not wait for FFmpeg

    sign_file(
        options.source,
        options.output,
        options.certificates,
        options.key,
        overwrite=options.overwrite,
    )
    return 0
