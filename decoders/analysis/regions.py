"""Lines and zones in the picture, and what objects do at them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import cv2
import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.typed import typed
from gsvc.decoders.analysis.rules import Visit
from gsvc.decoders.analysis.types import Event, FrameAnalysis, Totals, TrackedObject

Point = tuple[float, float]
_BAND = 0.01
"""Share of the picture's height on each side of a line or border that is neither side."""
_GONE_SECONDS = 600.0
"""After which who was not seen is gone: pictures may be that far apart where nothing happens."""


@typed
@dataclass(frozen=True)
class Line:
    """A line between two points; objects cross it with the centre of their box."""

    name: str
    start: Point
    end: Point
    """x, y in pixels of the display."""


@typed
@dataclass(frozen=True)
class Zone:
    """A polygon; an object is in it with the centre of its box."""

    name: str
    corners: tuple[Point, ...]
    """x, y in pixels of the display, at least three."""


def check_regions(lines: tuple[Line, ...], zones: tuple[Zone, ...], size: tuple[int, int]) -> None:
    """Raises ConfigError for lines and zones that no object can reach, and for a name used twice.

    `size`: width and height of the picture.
    """
    check_names(lines, zones)
    for name, corners in [
        *((line.name, (line.start, line.end)) for line in lines),
        *((zone.name, zone.corners) for zone in zones),
    ]:
        low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        if (high <= 0).any() or (low >= size).any():
            raise ConfigError(
                f"{name} lies outside of the picture: choose x from 0 to {size[0]}, "
                f"y from 0 to {size[1]}"
            )


def check_names(lines: tuple[Line, ...], zones: tuple[Zone, ...]) -> None:
    """Raises ConfigError for a name used twice."""
    names = [line.name for line in lines] + [zone.name for zone in zones]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two lines or zones are named {name}: name them NAME=x,y,...")


@dataclass
class _Visit:
    since: float
    last: float


@dataclass
class _Known:
    """A track."""

    kind: str
    last: float
    """Seconds at which it was last seen."""


@dataclass
class Watcher:
    """Tells what objects do at lines and zones, frame by frame."""

    lines: tuple[Line, ...]
    zones: tuple[Zone, ...]
    height: float
    """Of the picture; objects must go a hundredth of it beyond a line or border."""
    patience: float
    """Seconds without an object after which it has left a zone."""
    totals: Totals = field(default_factory=Totals)
    """Of all frames so far."""
    _sides: dict[tuple[str, int], tuple[int, Point]] = field(default_factory=dict)
    _visits: dict[tuple[str, int], _Visit] = field(default_factory=dict)
    _known: dict[int, _Known] = field(default_factory=dict)
    _forgotten: float = 0.0
    """Seconds at which those that are gone were last forgotten."""
    _last: tuple[int, float] = (0, 0.0)

    def __post_init__(self) -> None:
        both = "left to right", "right to left"
        self.totals.lines = {line.name: dict.fromkeys(both, 0) for line in self.lines}
        self.totals.zones = {
            zone.name: {"visits": 0, "seconds": 0.0, "longest": 0.0} for zone in self.zones
        }

    def events(self, frame: FrameAnalysis) -> list[Event]:
        """What happens in the next frame."""
        found: list[Event] = []
        self._last = frame.frame, frame.seconds
        for one in frame.objects:
            self._count(one, frame.seconds)
            for line in self.lines:
                found += self._at_line(frame, one, line)
            for zone in self.zones:
                found += self._at_zone(frame, one, zone)
        found += self._left(frame.seconds - self.patience)
        if frame.seconds - self._forgotten > _GONE_SECONDS:
            self._forget(frame.seconds)
        return found

    def visits(self) -> list[Visit]:
        """Who is in which zone at the last frame."""
        return [
            Visit(zone, self._known[track].kind, visit.last - visit.since)
            for (zone, track), visit in self._visits.items()
        ]

    def finish(self) -> list[Event]:
        """Those who are in a zone at the end leave it."""
        return list(self._left(np.inf))

    def _count(self, one: TrackedObject, seconds: float) -> None:
        """Count each track once, as what it was called last."""
        known, counts = self._known.get(one.track), self.totals.objects
        if known is None or known.kind != one.kind:
            counts[one.kind] = counts.get(one.kind, 0) + 1
        if known is not None and known.kind != one.kind:
            counts[known.kind] -= 1
            if not counts[known.kind]:
                del counts[known.kind]
        self._known[one.track] = _Known(one.kind, seconds)

    def _forget(self, seconds: float) -> None:
        """Drop tracks that are gone, which never come again: memory is constant."""
        self._forgotten = seconds
        since = seconds - _GONE_SECONDS
        self._known = {track: one for track, one in self._known.items() if one.last >= since}
        self._sides = {key: side for key, side in self._sides.items() if key[1] in self._known}

    def _at_line(self, frame: FrameAnalysis, one: TrackedObject, line: Line) -> Iterator[Event]:
        at, key = _centre(one), (line.name, one.track)
        side = _side(line, at, _BAND * self.height)
        if not side:
            return
        before, self._sides[key] = self._sides.get(key), (side, at)
        if before is None or before[0] == side or not _crosses(before[1], at, line):
            return
        way = "left to right" if side > 0 else "right to left"
        self.totals.lines[line.name][way] += 1
        yield Event("line", frame.frame, frame.seconds, line.name, one.track, one.kind, way)

    def _at_zone(self, frame: FrameAnalysis, one: TrackedObject, zone: Zone) -> Iterator[Event]:
        key = zone.name, one.track
        depth = cv2.pointPolygonTest(np.array(zone.corners, np.float32), _centre(one), True)
        visit = self._visits.get(key)
        if visit is None and depth > _BAND * self.height:
            self._visits[key] = _Visit(frame.seconds, frame.seconds)
            self.totals.zones[zone.name]["visits"] += 1
            yield Event("enter", frame.frame, frame.seconds, zone.name, one.track, one.kind)
        elif visit is not None and depth > -_BAND * self.height:
            visit.last = frame.seconds
        elif visit is not None:
            yield self._leave(key)

    def _left(self, before: float) -> Iterator[Event]:
        """Those leave who were last seen in a zone before that second."""
        for key in [key for key, visit in self._visits.items() if visit.last < before]:
            yield self._leave(key)

    def _leave(self, key: tuple[str, int]) -> Event:
        visit, (name, track) = self._visits.pop(key), key
        dwell, sums = visit.last - visit.since, self.totals.zones[name]
        sums["seconds"] += dwell
        sums["longest"] = max(sums["longest"], dwell)
        kind = self._known[track].kind
        return Event("leave", *self._last, name=name, track=track, object=kind, dwell=dwell)


def _centre(one: TrackedObject) -> Point:
    left, top, right, bottom = one.box.tolist()
    return (left + right) / 2, (top + bottom) / 2


def _side(line: Line, at: Point, band: float) -> int:
    """1 to the right of a line, seen from its start, -1 to the left, 0 near it."""
    way, there = np.subtract(line.end, line.start), np.subtract(at, line.start)
    distance = float(way[0] * there[1] - way[1] * there[0]) / float(np.hypot(*way))
    return 0 if abs(distance) <= band else int(np.sign(distance))


def _crosses(a: Point, b: Point, line: Line) -> bool:
    """Whether the way from `a` to `b`, which lie on both sides, meets the line between its ends."""
    way = Line("", a, b)
    return _side(way, line.start, 0) * _side(way, line.end, 0) <= 0
