"""`gsvc analyse`: what is in a stream, without decoding it."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, TextIO

from gsvc.codec.command.arguments import add_overwrite, add_quiet, add_untrusted, limits_of
from gsvc.codec.errors import BitstreamError, ConfigError
from gsvc.codec.input import display_name
from gsvc.codec.output import STANDARD_OUTPUT, atomic_output

if TYPE_CHECKING:
    from gsvc.codec.analysis import AnalysisReader
    from gsvc.codec.command.analysis_formats import Format
    from gsvc.decoders.analysis.analyser import AnalysisSettings
    from gsvc.decoders.analysis.types import Cost, FrameAnalysis

DESCRIPTION = """Tell what is in a stream from its objects, or from its scaffold and coded
pictures, without decoding the frames between: objects and their tracks, crossings of lines, visits
to zones, people's key points, activity, motion of the camera, cuts."""

_FORMATS = "jsonl", "csv", "mot"
_Region = tuple[str, list[float]]


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc analyse`."""
    add = parser.add_argument
    add("source", metavar="STREAM", help="a stream, or - for standard input")
    add("-o", dest="output", metavar="OUT", default=STANDARD_OUTPUT, help="(default: print)")
    add("--format", choices=_FORMATS, default="jsonl", help="of OUT (%(default)s)")
    add("--draw", metavar="VIDEO", help="also decode, at steps 0, and draw what was found")
    add("--detector", default="auto", metavar="NAME|FILE|CLASS", help=_DETECTOR_HELP)
    add("--every", type=int, default=5, metavar="N", help=_EVERY_HELP)
    add("--least-score", type=float, default=0.5, metavar="0..1", help="of a user's detector")
    line = "count who crosses it; may be given again"
    add("--line", type=_line, action="append", default=[], metavar="[NAME=]X1,Y1,X2,Y2", help=line)
    zone = "time who is in it; may be given again"
    add("--zone", type=_zone, action="append", default=[], metavar="[NAME=]X1,Y1,...", help=zone)
    add_untrusted(parser)
    add_overwrite(parser)
    add_quiet(parser)


_DETECTOR_HELP = """auto: the objects that the stream has; without them people, where the models
are there, and what moves (default); objects; people; moving; none: what the stream has, no picture
is decoded; torchvision:NAME; a file .onnx or .pt of the YOLO family; your own as module:Class"""
_EVERY_HELP = "least frames between pictures that the detector looks at (%(default)s)"


def run(options: Namespace) -> int:
    """Analyse a stream, then tell what it took."""
    from gsvc.codec.analysis import open_analysis

    settings, limits = _settings(options), limits_of(options)
    with (
        open_analysis(options.source, settings, limits) as reader,
        _drawing(options, settings) as draw,
        _output(options) as file,
    ):
        damage = _write(reader, _format(options, file), draw)
    if damage is not None:
        name, frames = display_name(options.source), reader.cost.frames
        raise type(damage)(f"{name}: {damage}; told are the {frames} frames before that")
    if not options.quiet:
        print(_line_of(reader.cost), file=sys.stderr)
    return 0


def _write(
    reader: "AnalysisReader", out: "Format", draw: "Callable[[FrameAnalysis], None] | None"
) -> BitstreamError | None:
    """Write all frames; of a stream that is damaged those before, and give the damage."""
    damage = None
    out.begin(reader.header)
    try:
        for frame in reader.frames():
            out.frame(frame)
            if draw is not None:
                draw(frame)
    except BitstreamError as error:
        if not reader.cost.frames:
            raise
        damage = error
    out.end(reader.totals, reader.cost)
    return damage


def _settings(options: Namespace) -> "AnalysisSettings":
    from gsvc.decoders.analysis.analyser import AnalysisSettings
    from gsvc.decoders.analysis.regions import Line, Zone

    lines, zones = [], []
    for number, (name, v) in enumerate(options.line, 1):
        lines.append(Line(name or f"line {number}", (v[0], v[1]), (v[2], v[3])))
    for number, (name, v) in enumerate(options.zone, 1):
        corners = tuple(zip(v[::2], v[1::2], strict=True))
        zones.append(Zone(name or f"zone {number}", corners))
    return AnalysisSettings(
        options.detector, options.every, options.least_score, tuple(lines), tuple(zones)
    )


def _format(options: Namespace, file: TextIO) -> "Format":
    from gsvc.codec.command.analysis_formats import FORMATS

    return FORMATS[options.format](file)


@contextmanager
def _drawing(
    options: Namespace, settings: "AnalysisSettings"
) -> "Iterator[Callable[[FrameAnalysis], None] | None]":
    if options.draw is None:
        yield None
        return
    if options.draw == options.output:
        raise ConfigError(f"--draw and -o both name {options.draw}: give two names")
    from gsvc.codec.analysis_video import open_drawing

    limits = limits_of(options)
    with open_drawing(
        options.source, options.draw, settings, limits, overwrite=options.overwrite
    ) as draw:
        yield draw


@contextmanager
def _output(options: Namespace) -> Iterator[TextIO]:
    if options.output == STANDARD_OUTPUT:
        yield sys.stdout
        return
    with (
        atomic_output(options.output, options.overwrite) as path,
        open(path, "w", encoding="utf-8", newline="") as file,
    ):
        yield file


def _line(text: str) -> _Region:
    name, values = _region(text)
    if len(values) != 4 or values[:2] == values[2:]:
        raise ArgumentTypeError(f"{text!r} is no line: write two points as x1,y1,x2,y2")
    return name, values


def _zone(text: str) -> _Region:
    name, values = _region(text)
    if len(values) < 6 or len(values) % 2:
        raise ArgumentTypeError(f"{text!r} is no zone: write at least three points as x1,y1,...")
    return name, values


def _region(text: str) -> _Region:
    name, _, numbers = text.rpartition("=")
    try:
        values = [float(number) for number in numbers.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(isfinite, values)):
        raise ArgumentTypeError(f"{text!r}: write points as x1,y1,x2,y2,... in pixels")
    return name, values


def _line_of(cost: "Cost") -> str:
    return (
        f"read {cost.bytes_read} bytes, {cost.frames} frames, in {cost.milliseconds:.0f} ms; "
        f"decoded {cost.pictures} coded pictures, {cost.not_decoded} frames not; "
        f"the detector ran {cost.detector_runs} times"
    )
