"""`gsvc analyse` of several streams: one list of objects, in metres on the ground."""

import csv
import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, InputError
from gsvc.codec.command.analyse import settings_of
from gsvc.codec.command.analysis_formats import event_fields, rounded_fields
from gsvc.codec.command.analysis_page import write_page
from gsvc.codec.command.arguments import limits_of
from gsvc.codec.media.places import STANDARD_INPUT

if TYPE_CHECKING:
    from gsvc.codec.api.analysis import GroundFrame, GroundReader
    from gsvc.decoders.detection.findings import AnalysisCost
    from gsvc.decoders.detection.tracker import GroundObject

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_OPENS, _CLOSES = "[{", "]}"
_MOST = 1e100
_WANTED = "write [[a, b, c], [d, e, f], [g, h, i]], from metres to pixels, or a list of them"

Place = tuple[int, ...]
"""Number of a value in what holds it, from the outermost on."""


class _Fault(Exception):
    """What is wrong with the value at a place."""

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(what)
        self.place = place


def read_homographies(path: str) -> list[Any]:
    """One matrix a camera, or a list of one a frame, from metres on the ground to pixels.

    Raises InputError, with line and column of what is wrong.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return parse_homographies(text, path)


def parse_homographies(text: str, name: str) -> list[Any]:
    """The same of a text, from a file of that name."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise InputError(f"{place}: no JSON ({error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{name}:1:1: no JSON that can be read: {error}") from error
    maps = list(content.values()) if isinstance(content, dict) else content
    try:
        if not isinstance(maps, list) or not maps:
            raise _Fault((), f"no list of homographies: {_WANTED}, for each stream")
        for number, one in enumerate(maps):
            _check(one, (number,))
    except _Fault as fault:
        raise InputError(f"{name}:{_line_and_column(text, fault.place)}: {fault}") from fault
    return maps


def _check(value: Any, place: Place) -> None:
    """A matrix, or a list of some."""
    if isinstance(value, list) and value and all(_is_matrix_like(one) for one in value):
        for number, one in enumerate(value):
            _check_matrix(one, (*place, number))
    else:
        _check_matrix(value, place)


def _is_matrix_like(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(row, list) for row in value)


def _check_matrix(value: Any, place: Place) -> None:
    if not isinstance(value, list) or len(value) != 3:
        raise _Fault(place, f"no matrix of 3 rows: {_WANTED}")
    for number, row in enumerate(value):
        if not isinstance(row, list) or len(row) != 3:
            raise _Fault((*place, number), "a row of a homography has 3 numbers")
        for column, one in enumerate(row):
            is_number = isinstance(one, int | float) and not isinstance(one, bool)
            if not (is_number and abs(one) < _MOST):  # nan is below nothing
                raise _Fault((*place, number, column), "no number that a homography can have")
    if not _is_invertible(value):
        raise _Fault(place, "this homography cannot be inverted: check its numbers")


def _is_invertible(matrix: list[list[float]]) -> bool:
    import numpy as np

    with np.errstate(all="ignore"):
        size = float(np.abs(np.linalg.det(np.array(matrix, np.float64))))
    return bool(np.isfinite(size)) and size >= 1e-12


def _line_and_column(text: str, place: Place) -> str:
    """Where a value stands, "line:column", from 1."""
    at = next((start for one, start in _places(text) if one == place), 0)
    line = text.count("\n", 0, at)
    return f"{line + 1}:{at - text.rfind(chr(10), 0, at)}"


def _places(text: str) -> Iterator[tuple[Place, int]]:
    """Every value of a text that is JSON, and where it begins; keys are none."""
    open_at: list[int] = []
    tokens = [(one.group(), one.start()) for one in _TOKEN.finditer(text)]
    follows = [token for token, _ in tokens[1:]] + [""]
    for (token, start), after in zip(tokens, follows, strict=True):
        if token in _CLOSES:
            open_at.pop()
        elif token == ",":
            open_at[-1] += 1
        elif token != ":" and after != ":":
            yield tuple(open_at), start
            if token in _OPENS:
                open_at.append(0)


_COLUMNS = "frame", "seconds", "track", "class", "x", "y", "score", "streams"


def write_together(
    options: Namespace, file: TextIO
) -> "tuple[AnalysisCost, BitstreamError | None]":
    """Write what the streams show together, up to damage in one; gives what it took, and that.

    Raises ConfigError for options that do not go with several streams.
    """
    from gsvc.codec.api.analysis import open_ground

    if options.draw is not None:
        raise ConfigError("--draw takes one stream: draw each alone")
    if options.format not in _FORMATS:
        raise ConfigError(f"several streams are told as {', '.join(_FORMATS)}: choose --format")
    if STANDARD_INPUT in options.source:
        raise ConfigError("several streams are read side by side: give files, not -")
    maps = read_homographies(options.homography)
    settings, limits = settings_of(options), limits_of(options)
    with open_ground(options.source, maps, settings, limits) as reader:
        frames = _Sound(reader)
        _FORMATS[options.format](reader, frames, file)
        return reader.cost, frames.damage


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
        rows.writerows(_rows(frame))


def _rows(frame: "GroundFrame") -> list[list[object]]:
    return [
        [
            frame.frame,
            round(frame.seconds, 4),
            one.track,
            one.kind,
            *(round(value, 3) for value in one.place.tolist()),
            round(one.score, 3),
            "+".join(map(str, one.seen)),
        ]
        for one in frame.objects
    ]


_FORMATS: dict[str, Callable[["GroundReader", "Iterable[GroundFrame]", TextIO], None]] = {
    "jsonl": _write_json,
    "csv": _write_csv,
    "html": write_page,
}
