"""`gsvc demux`: the stream out of a video file that it was mapped into."""

import sys
from argparse import ArgumentParser, Namespace

from gsvc.codec.command.arguments import (
    add_json,
    add_overwrite,
    add_paths,
    add_quiet,
    has_watcher,
    json_lines,
    target_of,
)
from gsvc.codec.media.places import SUFFIX

DESCRIPTION = """Get the stream back that gsvc mux put into a video file, byte for byte."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc demux`."""
    add_paths(parser, "what gsvc mux wrote", "the stream (default: IN with .gsv)")
    add_overwrite(parser)
    add_quiet(parser)
    add_json(parser, "the result as ")


def run(options: Namespace) -> int:
    """Get a stream back, then tell its size."""
    from gsvc.codec.media.mapping import demux  # late: --help does not wait for FFmpeg

    target = target_of(options, SUFFIX)
    size = demux(options.source, target, overwrite=options.overwrite)
    if options.json:
        json_lines(options).put("done", target=target, size=size)
    elif has_watcher(options):
        print(f"{target}: {size} bytes", file=sys.stderr)
    return 0
