"""`gsvc analyse`: what is in a stream, without decoding it, or in several that see one ground."""

import csv
import json
import math
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import numpy as np

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, InputError
from gsvc.codec.command.analysis_formats import FORMATS, Format, event_fields, rounded_fields
from gsvc.codec.command.analysis_page import write_page
from gsvc.codec.command.arguments import limits_of
from gsvc.codec.media.output import STANDARD_OUTPUT, atomic_output
from gsvc.codec.media.places import STANDARD_INPUT, display_name, refuse_same

if TYPE_CHECKING:
    from gsvc.codec.api.analysis import AnalysisReader, GroundFrame, GroundReader
    from gsvc.decoders.detection.analyser import AnalysisSettings
    from gsvc.decoders.detection.findings import AnalysisCost, FrameAnalysis
    from gsvc.decoders.detection.rules import Regions
    from gsvc.decoders.detection.tracker import GroundObject

_Region = TypeVar("_Region")


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

    return Regions((), (), ()) if path is None else parse_file(_text_of(path), path)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
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


USAGE = """Report what a stream shows without decoding every frame: objects and their tracks,
line crossings, visits to zones, events of your own rules, key points of people, activity, camera
motion and cuts.

source STREAM...        a stream, or - for standard input
--homography FILE       for several cameras of one place: a JSON list of a 3x3 matrix for each
                        stream, from metres on the ground to pixels; lines and zones are then in
                        metres
-o OUT -> output        the report (default: print it)
--format {jsonl,csv,mot,coco,html}  format of the report (=jsonl)
--draw VIDEO            also decode the video at steps 0 and draw the findings into it
--detector NAME|FILE|CLASS  auto (default): the objects in the stream, otherwise moving objects and
                        those of the best installed detector; objects: only those in the stream;
                        coco: COCO's 80 classes; people; moving; none: decode no picture;
                        torchvision:NAME; a YOLO file .onnx or .pt; or your own module:Class
--every N               run the detector at most every N frames (=5)
--least-score 0..1      least score of a detection, for a detector of your own (=0.5)
--line +[NAME=]X1,Y1,X2,Y2  line whose crossings to count; may be repeated
--zone +[NAME=]X1,Y1,...  zone whose visits to time; may be repeated
--when +[NAME:]RULE     rule of an event: "person in door > 5 s", "count car > 3" or "activity >
                        0.1", joined by and; may be repeated
--rules FILE            file of lines, zones and rules, one a row: zone door = 10,20,... or NAME:
                        RULE
--untrusted -y --quiet
"""
DEFAULTS = (Namespace(detector="auto", output=STANDARD_OUTPUT),)


def run(options: Namespace) -> int:
    """Analyse a stream, or several together, then tell what it took."""
    if options.homography is None and len(options.source) > 1:
        raise ConfigError("several streams need --homography FILE: from metres to pixels of each")
    for source in options.source:
        for target in (options.output, options.draw or STANDARD_OUTPUT):
            refuse_same(source, target)
    cost = _alone(options) if options.homography is None else _together(options)
    if not options.quiet:
        print(
            f"read {cost.bytes_read} bytes, {cost.frames} frames, in {cost.milliseconds:.0f} ms; "
            f"decoded {cost.pictures} coded pictures, {cost.not_decoded} frames not; "
            f"the detector ran {cost.detector_runs} times",
            file=sys.stderr,
        )
    return 0


def _together(options: Namespace) -> "AnalysisCost":
    """Raises ConfigError for options that do not go with several streams."""
    from gsvc.codec.api.analysis import open_ground

    if options.draw is not None:
        raise ConfigError("--draw takes one stream: draw each alone")
    if options.format not in _GROUND_FORMATS:
        known = ", ".join(_GROUND_FORMATS)
        raise ConfigError(f"several streams are told as {known}: choose --format")
    if STANDARD_INPUT in options.source:
        raise ConfigError("several streams are read side by side: give files, not -")
    maps = parse_homographies(_text_of(options.homography), options.homography)
    settings, limits = settings_of(options), limits_of(options)
    with open_ground(options.source, maps, settings, limits) as reader, _output(options) as file:
        frames = _Sound(reader)
        _GROUND_FORMATS[options.format](reader, frames, file)
    if (damage := frames.damage) is not None:
        raise type(damage)(f"{damage}; told is what all streams show before that")
    return reader.cost


def _alone(options: Namespace) -> "AnalysisCost":
    from gsvc.codec.api.analysis import open_analysis

    (options.source,) = options.source
    settings, limits = settings_of(options), limits_of(options)
    with (
        open_analysis(options.source, settings, limits) as reader,
        _drawing(options, settings) as draw,
        _output(options) as file,
    ):
        damage = _write(reader, FORMATS[options.format](file), draw)
    if damage is not None:
        name, frames = display_name(options.source), reader.cost.frames
        raise type(damage)(f"{name}: {damage}; told are the {frames} frames before that")
    return reader.cost


def _write(
    reader: "AnalysisReader", out: Format, draw: "Callable[[FrameAnalysis], None] | None"
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


_MOST = 1e100
_WANTED = "write [[a, b, c], [d, e, f], [g, h, i]], from metres to pixels, or a list of them"


def parse_homographies(text: str, name: str) -> list[Any]:
    """One matrix a camera, or a list of one a frame, from metres on the ground to pixels.

    `text`: of a file of that name. Raises InputError, with the stream whose matrix is wrong.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise InputError(f"{place}: no JSON ({error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{name}: no JSON that can be read: {error}") from error
    maps = list(content.values()) if isinstance(content, dict) else content
    if not isinstance(maps, list) or not maps:
        raise InputError(f"{name}: no list of homographies: {_WANTED}, for each stream")
    for number, one in enumerate(maps):
        is_list = isinstance(one, list) and one and all(map(_has_rows, one))
        for matrix in one if is_list else [one]:
            if fault := _fault_of(matrix):
                raise InputError(f"{name}: stream {number}: {fault}")
    return maps


def _has_rows(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(row, list) for row in value)


def _fault_of(matrix: Any) -> str:
    """What is wrong with a homography; "" where nothing is."""
    rows = matrix if isinstance(matrix, list) else []
    if len(rows) != 3 or any(not isinstance(row, list) or len(row) != 3 for row in rows):
        return f"no matrix of 3 rows of 3 numbers: {_WANTED}"
    numbers = [one for row in rows for one in row]
    # nan is below nothing
    if not all(type(one) in (int, float) and abs(one) < _MOST for one in numbers):
        return "no number that a homography can have"
    with np.errstate(all="ignore"):
        size = float(np.abs(np.linalg.det(np.array(rows, np.float64))))
    return "" if 1e-12 <= size < math.inf else "it cannot be inverted: check its numbers"


_COLUMNS = "frame", "seconds", "track", "class", "x", "y", "score", "streams"


class _Sound:
    """The frames of a reader before the first damage."""

    def __init__(self, reader: "GroundReader") -> None:
        self._reader = reader
        self.damage: BitstreamError | None = None

    def __iter__(self) -> "Iterator[GroundFrame]":
        try:
            yield from self._reader.frames()
        except BitstreamError as error:
            self.damage = error


def _write_json(reader: "GroundReader", frames: "Iterable[GroundFrame]", file: TextIO) -> None:
    def put(kind: str, **fields: object) -> None:
        file.write(json.dumps({"type": kind, **fields}) + "\n")

    put("ground", frame_rate=reader.frame_rate)
    for frame in frames:
        objects = [_object(one) for one in frame.objects]
        put("frame", frame=frame.frame, seconds=round(frame.seconds, 4), objects=objects)
        for event in frame.events:
            put("event", **event_fields(event))
    totals, cost = reader.totals, rounded_fields(asdict(reader.cost))
    put("summary", objects=totals.objects, lines=totals.lines, zones=totals.zones, **cost)


def _object(one: "GroundObject") -> dict[str, object]:
    x, y = one.place.tolist()
    seen = [
        {"stream": camera, "track": there.track, "box": [round(v, 2) for v in there.box.tolist()]}
        for camera, there in one.seen.items()
    ]
    place = [round(x, 3), round(y, 3)]
    fields = {"track": one.track, "class": one.kind, "place": place, "score": round(one.score, 3)}
    return {**fields, "seen": seen}


def _write_csv(_reader: "GroundReader", frames: "Iterable[GroundFrame]", file: TextIO) -> None:
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for frame in frames:
        for one in frame.objects:
            place = [round(value, 3) for value in one.place.tolist()]
            seen = "+".join(map(str, one.seen))
            when = frame.frame, round(frame.seconds, 4)
            rows.writerow([*when, one.track, one.kind, *place, round(one.score, 3), seen])


_GROUND_FORMATS: dict[str, Callable[["GroundReader", "Iterable[GroundFrame]", TextIO], None]] = {
    "jsonl": _write_json,
    "csv": _write_csv,
    "html": write_page,
}
