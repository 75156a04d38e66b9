"""`gsvc decode` and `gsvc play`: stream to video, in a file or in a player."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.reports import DecodeReport, shown_time
from gsvc.codec.command import arguments, main
from gsvc.codec.media.places import piece_paths
from gsvc.codec.planning.process import peak_memory, process_seconds

if TYPE_CHECKING:
    from gsvc.codec.command.planned import Foretold
    from gsvc.codec.planning.realtime import DeadlinePace

DESCRIPTION = """Decode a stream to a video. OUT is a container such as video.mp4 or video.mkv,
images ('out/%05d.png'), or y4m (video.y4m, or - for standard output). IN may also be the pieces of
gsvc encode --packets, as a folder or as several files."""

RENAMED = {"--budget": "--time-budget"}


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc decode`."""
    arguments.add_paths(parser, "the stream", "the video (default: IN with .decoded.mp4)")
    arguments.add_refiner(parser, DecoderSettings())
    arguments.add_pretrained(parser)
    _add_time(parser)
    arguments.add_part(parser, "decode")
    arguments.add_flags(parser, "--conceal", "--untrusted", "-y", "--quiet")
    arguments.add_json(parser, "progress and result as ")


def _add_time(parser: ArgumentParser) -> None:
    """How much time to spend."""
    from gsvc.codec.planning.budgets import JUDGES

    time = parser.add_mutually_exclusive_group()
    way = "decode as well as fits safely into this time, by gsvc profile: 1x, 90s"
    time.add_argument("--time-budget", metavar="TIME", help=way)
    spend = "decode all frames, then restore what gains most until this time: 10min"
    time.add_argument("--deadline", metavar="TIME", help=spend)
    best = "quality that --time-budget maximises (%(default)s)"
    parser.add_argument("--judge", choices=JUDGES, default="texture", help=best)


def run(options: Namespace) -> int:
    """Decode a file, then tell what came out."""
    from gsvc.codec.api.decode_file import decode

    source, target = _places(options)
    settings, pace, foretold = _spending(options)
    with arguments.shown_progress(options, "decoded") as progress:
        report = decode(
            source,
            target,
            settings=settings,
            start=options.start,
            frames=options.frames,
            limits=arguments.limits_of(options),
            overwrite=options.overwrite,
            progress=progress,
            pace=pace,
        )
    if foretold is not None:
        foretold.note({"decode_seconds": process_seconds(), "decode_memory": peak_memory()})
    if options.json:
        more = {} if pace is None else {"restored": pace.restored}
        arguments.json_lines(options).put("done", **asdict(report), **more)
    elif arguments.has_watcher(options):
        restored = "" if pace is None else f", {pace.restored} pictures restored"
        print(_line(report) + restored, file=sys.stderr)
    return 0


def _places(options: Namespace) -> tuple[str | list[str], str]:
    """The stream, or all names but the last where the first of several is a piece; the video."""
    if not (options.others and piece_paths(options.source)):
        return options.source, arguments.target_of(options, ".decoded.mp4")
    names = [options.source, options.target, *options.others]
    target = options.output or names.pop()
    return names, target


def _spending(
    options: Namespace,
) -> "tuple[DecoderSettings, DeadlinePace | None, Foretold | None]":
    """As chosen by hand, or by what there is time for."""
    if options.deadline is None and options.time_budget is None:
        return arguments.settings_of(DecoderSettings, options), None, None
    from gsvc.codec.command import planned

    if options.deadline is not None:
        return *planned.deadline_decoding(options), None
    settings, foretold = planned.budgeted_decoding(options)
    return settings, None, foretold


def _line(report: DecodeReport) -> str:
    return (
        f"{report.target}: {report.frames} frames of {report.width}x{report.height}, "
        f"{shown_time(report.duration)}, steps {report.steps}, in {shown_time(report.elapsed)}"
    )


_PLAY = """Play a stream in a window of mpv, ffplay or VLC. Without a display, or with --player -,
gsvc writes the video to standard output as Matroska, for another player."""


def _add_play(parser: ArgumentParser) -> None:
    """The arguments of `gsvc play`."""
    parser.add_argument("source", metavar="IN", help="the stream, or a file of gsvc mux")
    player = "program with arguments that reads Matroska from standard input"
    parser.add_argument("--player", metavar="COMMAND", help=player)
    arguments.add_refiner(parser, DecoderSettings(steps=0))
    arguments.add_part(parser, "play")
    arguments.add_flags(parser, "--conceal", "--untrusted", "--quiet")


def _play(options: Namespace) -> int:
    """Play a stream to its end."""
    from gsvc.codec.api.playing import find_player, play_file

    play_file(
        options.source,
        find_player(options.player),
        settings=arguments.settings_of(DecoderSettings, options),
        start=options.start,
        frames=options.frames,
        limits=arguments.limits_of(options),
    )
    return 0


PLAY = main.Verb(_PLAY, _add_play, _play)
