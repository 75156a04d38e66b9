"""`gsvc analyse`: what is in a stream, without decoding it."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, InputError
from gsvc.codec.command.arguments import add_overwrite, add_quiet, add_untrusted, limits_of
from gsvc.codec.media.output import STANDARD_OUTPUT, atomic_output
from gsvc.codec.media.places import display_name, refuse_same

if TYPE_CHECKING:
    from gsvc.codec.api.analysis import AnalysisReader
    from gsvc.codec.command.analysis_formats import Format
    from gsvc.decoders.detection.analyser import AnalysisSettings
    from gsvc.decoders.detection.findings import AnalysisCost, FrameAnalysis
    from gsvc.decoders.detection.rules import Regions

_Region = TypeVar("_Region")

_DETECTOR_HELP = """auto: the objects that the stream has; without them what the best detector
that is there finds, and what moves (default); objects; coco: people and 79 classes of things;
people; moving; none: what the stream has, no picture is decoded; torchvision:NAME; a file .onnx or
.pt of the YOLO family; your own as module:Class"""
_EVERY_HELP = "least frames between pictures that the detector looks at (%(default)s)"
_LINE_HELP = "count who crosses it; may be given again"
_ZONE_HELP = "time who is in it; may be given again"
_WHEN_HELP = """an event of your own, "person in door > 5 s", "count car > 3", "activity > 0.1",
joined by and; may be given again"""
_RULES_HELP = "lines, zones and rules, one a row: zone door = 10,20,... and NAME: RULE"


def add_settings(parser: ArgumentParser) -> None:
    """The options that say what to look for."""
    add = parser.add_argument
    add("--detector", default="auto", metavar="NAME|FILE|CLASS", help=_DETECTOR_HELP)
    add("--every", type=int, default=5, metavar="N", help=_EVERY_HELP)
    add("--least-score", type=float, default=0.5, metavar="0..1", help="of a user's detector")
    add("--line", action="append", default=[], metavar="[NAME=]X1,Y1,X2,Y2", help=_LINE_HELP)
    add("--zone", action="append", default=[], metavar="[NAME=]X1,Y1,...", help=_ZONE_HELP)
    add("--when", action="append", default=[], metavar="[NAME:]RULE", help=_WHEN_HELP)
    add("--rules", metavar="FILE", help=_RULES_HELP)


def settings_of(options: Namespace) -> "AnalysisSettings":
    """Raises ConfigError for what makes no sense, InputError without the file of rules."""
    from gsvc.decoders.detection.analyser import AnalysisSettings
    from gsvc.decoders.detection.rules import line_of, parse_rule, zone_of

    lines, zones, rules = rules_of(options.rules)
    return AnalysisSettings(
        options.detector,
        options.every,
        options.least_score,
        (*lines, *_regions("line", options.line, line_of)),
        (*zones, *_regions("zone", options.zone, zone_of)),
        (*rules, *(parse_rule(text, "--when") for text in options.when)),
    )


def rules_of(path: str | None) -> "Regions":
    """What a file of rules says; nothing for None. Raises InputError, ConfigError."""
    from gsvc.decoders.detection.rules import Regions, parse_file

    if path is None:
        return Regions((), (), ())
    try:
        return parse_file(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _regions(
    kind: str, given: list[str], parse: Callable[[str, str], _Region]
) -> tuple[_Region, ...]:
    """Of options as NAME=NUMBERS; those without a name get a number."""
    parts = [text.rpartition("=") for text in given]
    return tuple(
        parse(name or f"{kind} {number}", numbers)
        for number, (name, _, numbers) in enumerate(parts, 1)
    )


DESCRIPTION = """Tell what is in a stream from its objects, or from its scaffold and coded
pictures, without decoding the frames between: objects and their tracks, crossings of lines, visits
to zones, events of your own rules, people's key points, activity, motion of the camera, cuts."""

_HOMOGRAPHY_HELP = """of several streams whose cameras see one piece of ground: JSON, a list of
one 3x3 matrix a stream, from metres to pixels; objects, lines and zones are in metres then"""
_FORMATS = "jsonl", "csv", "mot", "coco", "html"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc analyse`."""
    add = parser.add_argument
    add("source", nargs="+", metavar="STREAM", help="a stream, or - for standard input")
    add("--homography", metavar="FILE", help=_HOMOGRAPHY_HELP)
    add("-o", dest="output", metavar="OUT", default=STANDARD_OUTPUT, help="(default: print)")
    add("--format", choices=_FORMATS, default="jsonl", help="of OUT (%(default)s)")
    add("--draw", metavar="VIDEO", help="also decode, at steps 0, and draw what was found")
    add_settings(parser)
    add_untrusted(parser)
    add_overwrite(parser)
    add_quiet(parser)


def run(options: Namespace) -> int:
    """Analyse a stream, or several together, then tell what it took."""
    if options.homography is None and len(options.source) > 1:
        raise ConfigError("several streams need --homography FILE: from metres to pixels of each")
    for source in options.source:
        for target in (options.output, options.draw or STANDARD_OUTPUT):
            refuse_same(source, target)
    cost = _alone(options) if options.homography is None else _together(options)
    if not options.quiet:
        print(_line_of(cost), file=sys.stderr)
    return 0


def _together(options: Namespace) -> "AnalysisCost":
    from gsvc.codec.command.analyse_together import write_together

    with _output(options) as file:
        cost, damage = write_together(options, file)
    if damage is not None:
        raise type(damage)(f"{damage}; told is what all streams show before that")
    return cost


def _alone(options: Namespace) -> "AnalysisCost":
    from gsvc.codec.api.analysis import open_analysis

    (options.source,) = options.source
    settings, limits = settings_of(options), limits_of(options)
    with (
        open_analysis(options.source, settings, limits) as reader,
        _drawing(options, settings) as draw,
        _output(options) as file,
    ):
        damage = _write(reader, _format(options, file), draw)
    if damage is not None:
        name, frames = display_name(options.source), reader.cost.frames
        raise type(damage)(f"{name}: {damage}; told are the {frames} frames before that")
    return reader.cost


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
    from gsvc.codec.api.analysis import open_drawing

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


def _line_of(cost: "AnalysisCost") -> str:
    return (
        f"read {cost.bytes_read} bytes, {cost.frames} frames, in {cost.milliseconds:.0f} ms; "
        f"decoded {cost.pictures} coded pictures, {cost.not_decoded} frames not; "
        f"the detector ran {cost.detector_runs} times"
    )
