"""`gsvc mux`: a stream into a video file that any player shows."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from gsvc.codec.api.reports import shown_time
from gsvc.codec.command.arguments import (
    add_json,
    add_overwrite,
    add_paths,
    add_quiet,
    has_watcher,
    json_lines,
    target_of,
    without_warnings,
)

DESCRIPTION = """Put a stream into .mp4, .mkv or .webm: any player shows its coded pictures, with
sound and subtitles; gsvc decode shows the video, gsvc demux gets the stream back."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc mux`."""
    add_paths(parser, "the stream", "the video file (default: IN with .mp4)")
    add_overwrite(parser)
    add_quiet(parser)
    add_json(parser, "the result as ")


def run(options: Namespace) -> int:
    """Map a stream, then tell what came out."""
    from gsvc.codec.media.mapping import mux  # late: --help does not wait for FFmpeg

    target = target_of(options, ".mp4")
    with without_warnings(options.quiet):
        report = mux(options.source, target, overwrite=options.overwrite)
    if options.json:
        json_lines(options).put("done", **asdict(report))
    elif has_watcher(options):
        print(
            f"{report.target}: {report.pictures} pictures of {report.frames} frames, "
            f"{shown_time(report.duration)}, {report.size} bytes ({report.stream_size} in IN)",
            file=sys.stderr,
        )
    return 0
