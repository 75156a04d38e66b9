"""What `gsvc analyse` looks for, as its options say."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gsvc.codec.errors import InputError

if TYPE_CHECKING:
    from gsvc.decoders.analysis.analyser import AnalysisSettings
    from gsvc.decoders.analysis.rules_text import Regions

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
    from gsvc.decoders.analysis.analyser import AnalysisSettings
    from gsvc.decoders.analysis.rules_text import line_of, parse_rule, zone_of

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
    from gsvc.decoders.analysis.rules_text import Regions, parse_file

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
