"""`gsvc analyse` of several streams: one list of objects, in metres on the ground."""

import csv
import json
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from gsvc.codec.command.analysis_formats import event_fields, rounded_fields
from gsvc.codec.command.analysis_settings import settings_of
from gsvc.codec.command.arguments import limits_of
from gsvc.codec.command.ground_page import write_page
from gsvc.codec.command.homography_file import read_homographies
from gsvc.codec.errors import BitstreamError, ConfigError
from gsvc.codec.input import STANDARD_INPUT

if TYPE_CHECKING:
    from gsvc.codec.analysis_ground import GroundFrame, GroundReader
    from gsvc.decoders.analysis.ground import GroundObject
    from gsvc.decoders.analysis.types import Cost

_COLUMNS = "frame", "seconds", "track", "class", "x", "y", "score", "streams"


def write_together(options: Namespace, file: TextIO) -> "tuple[Cost, BitstreamError | None]":
    """Write what the streams show together, up to damage in one; gives what it took, and that.

    Raises ConfigError for options that do not go with several streams.
    """
    from gsvc.codec.analysis_ground import open_ground

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
