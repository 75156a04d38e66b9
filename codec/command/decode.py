"""`gsvc decode`: stream to video."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from gsvc.codec.command.arguments import (
    add_json,
    add_overwrite,
    add_part,
    add_paths,
    add_quiet,
    add_refiner,
    add_untrusted,
    limits_of,
    settings_of,
    target_of,
)
from gsvc.codec.command.progress import has_watcher, json_lines, shown_progress
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.reports import DecodeReport
from gsvc.codec.times import shown_time

DESCRIPTION = """Decode a stream to a video: a container by its suffix (.mp4, .mkv, .webm ...),
images ('out/%05d.png'), or y4m (.y4m, or - for standard output)."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc decode`."""
    add_paths(parser, "the stream", "the video (default: IN with .decoded.mp4)")
    add_refiner(parser, DecoderSettings())
    add_part(parser, "decode")
    conceal = "go on after damage; make up the frames that are missing"
    parser.add_argument("--conceal", action="store_true", help=conceal)
    add_untrusted(parser)
    add_overwrite(parser)
    add_quiet(parser)
    add_json(parser, "progress and result as ")


def run(options: Namespace) -> int:
    """Decode a file, then tell what came out."""
    from gsvc.codec.files import decode_file  # late: --help and usage errors do not wait for FFmpeg

    target = target_of(options, ".decoded.mp4")
    with shown_progress(options, "decoded") as progress:
        report = decode_file(
            options.source,
            target,
            settings=settings_of(DecoderSettings, options),
            start=options.start,
            frames=options.frames,
            limits=limits_of(options),
            overwrite=options.overwrite,
            progress=progress,
        )
    if options.json:
        json_lines(options).put("done", **asdict(report))
    elif has_watcher(options):
        print(_line(report), file=sys.stderr)
    return 0


def _line(report: DecodeReport) -> str:
    return (
        f"{report.target}: {report.frames} frames of {report.width}x{report.height}, "
        f"{shown_time(report.duration)}, steps {report.steps}, in {shown_time(report.elapsed)}"
    )
