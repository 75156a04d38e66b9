"""`gsvc info`: what is in a stream."""

from argparse import ArgumentParser, Namespace

from gsvc.codec.command.arguments import add_json, add_untrusted, limits_of
from gsvc.codec.command.progress import JsonLines, json_lines
from gsvc.codec.stream.info import StreamInfo, info_lines, stream_info

DESCRIPTION = "Show a stream's header and how many bits each layer takes. - reads standard input."


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc info`."""
    add = parser.add_argument
    add("source", metavar="FILE")
    add("--packets", action="store_true", help="a row for each packet")
    add("--verbose", action="store_true", help="and for each element of the scaffold")
    add_untrusted(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Show what is in a stream."""
    found = stream_info(options.source, elements=options.verbose, limits=limits_of(options))
    packets = options.packets or options.verbose
    if not options.json:
        for line in info_lines(found, packets=packets):
            print(line)
        return 0
    _put(found, json_lines(options), packets=packets, elements=options.verbose)
    return 0


def _put(found: StreamInfo, lines: JsonLines, *, packets: bool, elements: bool) -> None:
    lines.put(
        "stream",
        header=found.header.fields(),
        size=found.size,
        packets=len(found.packets),
        frames=found.frames,
        duration=found.duration,
        bpp=found.bpp,
        bitrate=found.bitrate,
        ledger=found.bits,
        scaffold_hash=found.scaffold_hash,
    )
    for packet in found.packets if packets else ():
        lines.put(
            "packet",
            name=packet.name,
            frame=packet.time,
            size=packet.size,
            bits=packet.bits,
            crf=packet.crf,
            eighths=packet.scale,
            key_pictures=packet.key_frames,
            **({"elements": packet.elements} if elements else {}),
        )
