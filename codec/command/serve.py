"""`gsvc serve`: a stream to browsers."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.command.arguments import add_quiet, add_untrusted, limits_of

DESCRIPTION = """Serve a stream with a player for browsers, which decodes without refinement: a .gsv
file, what gsvc mux wrote, or what gsvc send sends to ws://host:port, live. Only this machine is
served unless --host says otherwise. Ends by Ctrl-C."""

_HOST, _PORT = "127.0.0.1", 8000


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc serve`."""
    parser.add_argument("source", metavar="IN", help="the stream, or ws://host:port")
    parser.add_argument("--port", type=int, default=_PORT, help="0: a free one (%(default)s)")
    host = "address to serve at, 0.0.0.0 for all networks (%(default)s)"
    parser.add_argument("--host", default=_HOST, help=host)
    add_untrusted(parser)
    add_quiet(parser)


def run(options: Namespace) -> int:
    """Serve until interrupted."""
    # late: --help does not wait for FFmpeg
    from gsvc.codec.network.player_server import FileSource, LiveSource, serving

    is_live = "://" in options.source
    source = (
        LiveSource(options.source)
        if is_live
        else FileSource(Path(options.source), limits_of(options))
    )
    with serving(source, options.host, options.port) as server:
        if not options.quiet:
            print(f"{server.address} (Ctrl-C ends)", file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
    return 0
