"""`gsvc bench speed`: how fast refiners and motion are on a device."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.command.arguments import add_device, add_json, integers
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    from gsvc.eval.bench.speed import SpeedSettings

DESCRIPTION = """Time refiners on synthetic pictures of 16:9, one at a time and several at once, and
the drawing of frames by motion (on the CPU), as one table. On a CPU a second table shows our own
networks in each precision, memory layout and number of threads. Needs gsvc[refine]."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench speed`."""
    add = parser.add_argument
    add_device(parser, "cpu")
    lines = "lines of the pictures (288,720,1080)"
    add("--size", type=integers, default=[288, 720, 1080], metavar="N,N", help=lines)
    names = "motion, rife, or as in gsvc decode; repeat for several (all that ship)"
    add("--backend", action="append", metavar="NAME", help=names)
    add_json(parser, "machine and speeds as ")


def run(options: Namespace) -> int:
    """Time what is asked for, then show it."""
    need("refine", "gsvc bench speed")
    from gsvc.decoders.keyframes.backends import check_device
    from gsvc.eval.bench.cpu_paths import measure_paths, paths_table
    from gsvc.eval.bench.speed import description, measure, table

    settings = _settings(options)
    check_device(settings.device)
    told = description(settings.device)
    shows_paths = settings.device == "cpu" and any("compact" in x for x in settings.subjects)
    paths = list(measure_paths()) if shows_paths else []
    if options.json:
        lines = JsonLines(sys.stdout)
        lines.put("machine", **told)
        for speed in measure(settings):
            lines.put("speed", **asdict(speed), share=speed.share)
        for path in paths:
            lines.put("path", **asdict(path))
    else:
        print(table(list(measure(settings)), told))
        if paths:
            print(f"\n{paths_table(paths)}")
    return 0


def _settings(options: Namespace) -> "SpeedSettings":
    from gsvc.eval.bench.speed import SpeedSettings

    subjects = tuple(dict.fromkeys(options.backend or SpeedSettings.subjects))
    return SpeedSettings(subjects, tuple(dict.fromkeys(options.size)), options.device)
