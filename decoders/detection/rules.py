"""Lines, zones and rules: what a user calls an event, when it happens, and how it is written.

    # who stays before the door
    zone door = 300,150,768,150,768,450
    line gate = 400,150,600,400
    long visit: person in door > 5 s
    crowd: count person > 3 and activity > 0.1

A rule without a name is named by its words. In a rule, names of several words are in double quotes.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from math import isfinite
from operator import ge, gt, le, lt
from typing import NamedTuple, NoReturn

import cv2
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, typed
from gsvc.decoders.detection.findings import Event, FrameAnalysis, Totals, TrackedObject

ANYTHING = "anything"
"""In place of a class."""
COMPARE = {">": gt, ">=": ge, "<": lt, "<=": le}


class Visit(NamedTuple):
    """An object that is in a zone."""

    zone: str
    kind: str
    seconds: float
    """For so long."""


@dataclass(frozen=True)
class Inside:
    """One of a class is in a zone for longer than some seconds."""

    kind: str
    zone: str
    seconds: float = 0.0

    def holds(self, frame: FrameAnalysis, visits: Collection[Visit]) -> bool:
        return any(visit.seconds >= self.seconds for visit in _matching(self, visits))


@dataclass(frozen=True)
class Count:
    """How many of a class there are, in a zone or in the picture."""

    kind: str
    zone: str | None
    compare: str
    """Of `COMPARE`."""
    number: float

    def holds(self, frame: FrameAnalysis, visits: Collection[Visit]) -> bool:
        if self.zone is not None:
            count = sum(1 for _ in _matching(self, visits))
        else:
            count = sum(self.kind in (ANYTHING, one.kind) for one in frame.objects)
        return bool(COMPARE[self.compare](count, self.number))


@dataclass(frozen=True)
class Activity:
    """The share of the picture that moves by itself."""

    compare: str
    """Of `COMPARE`."""
    number: float

    zone: None = None

    def holds(self, frame: FrameAnalysis, visits: Collection[Visit]) -> bool:
        return frame.activity is not None and bool(
            COMPARE[self.compare](frame.activity, self.number)
        )


Condition = Inside | Count | Activity


@typed
@dataclass(frozen=True)
class Rule:
    """An event of a name holds while all conditions do."""

    name: str
    conditions: tuple[Condition, ...]
    place: str = field(default="", compare=False)
    """Where it is written, "rules.txt:3:1", line and column; messages begin with it."""


def check_rules(rules: Collection[Rule], zones: Collection[str]) -> None:
    """Raises ConfigError for a rule of a zone that is not there, and for a name used twice."""
    names = [rule.name for rule in rules]
    for rule in rules:
        if names.count(rule.name) > 1:
            last = [one for one in rules if one.name == rule.name][-1]
            why = f"{_at(last)}two rules are named {rule.name!r}: name them as NAME: RULE"
            raise ConfigError(why)
        for condition in rule.conditions:
            if condition.zone is not None and condition.zone not in zones:
                known = ", ".join(zones) or "none"
                raise ConfigError(
                    f"{_at(rule)}rule {rule.name!r}: there is no zone {condition.zone!r} (there "
                    f"are: {known})"
                )


def _at(rule: Rule) -> str:
    return f"{rule.place}: " if rule.place else ""


@dataclass
class _Span:
    """Seconds over which a rule holds, or an object is in a zone."""

    since: float
    last: float
    frame: int = 0
    """The last one."""


_PATIENCE = 1.0
"""Seconds for which a rule may fail before its event ends, or an object be away from a zone."""


@dataclass
class RuleWatcher:
    """Tells when rules begin and cease to hold, frame by frame."""

    rules: tuple[Rule, ...]
    _spans: dict[str, _Span] = field(default_factory=dict)

    def events(self, frame: FrameAnalysis, visits: Collection[Visit]) -> Iterator[Event]:
        """What begins and ends at the next frame."""
        for rule in self.rules:
            span = self._spans.get(rule.name)
            if all(condition.holds(frame, visits) for condition in rule.conditions):
                if span is None:
                    self._spans[rule.name] = _Span(frame.seconds, frame.seconds, frame.frame)
                    yield Event("begin", frame.frame, frame.seconds, rule.name)
                else:
                    span.last, span.frame = frame.seconds, frame.frame
            elif span is not None and frame.seconds - span.last > _PATIENCE:
                yield self._end(rule.name)

    def finish(self) -> list[Event]:
        """What holds at the end ends there."""
        return [self._end(name) for name in list(self._spans)]

    def _end(self, name: str) -> Event:
        span = self._spans.pop(name)
        return Event("end", span.frame, span.last, name, dwell=span.last - span.since)


def _matching(condition: Inside | Count, visits: Collection[Visit]) -> Iterator[Visit]:
    for visit in visits:
        if visit.zone == condition.zone and condition.kind in (ANYTHING, visit.kind):
            yield visit


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
class Watcher:
    """Tells what objects do at lines and zones, frame by frame."""

    lines: tuple[Line, ...]
    zones: tuple[Zone, ...]
    height: float
    """Of the picture; objects must go a hundredth of it beyond a line or border."""
    totals: Totals = field(default_factory=Totals)
    """Of all frames so far."""
    _sides: dict[tuple[str, int], tuple[int, Point]] = field(default_factory=dict)
    _visits: dict[tuple[str, int], _Span] = field(default_factory=dict)
    _known: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Class of each track, and seconds at which it was last seen."""
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
        found += self._left(frame.seconds - _PATIENCE)
        if frame.seconds - self._forgotten > _GONE_SECONDS:
            self._forget(frame.seconds)
        return found

    def visits(self) -> list[Visit]:
        """Who is in which zone at the last frame."""
        return [
            Visit(zone, self._known[track][0], visit.last - visit.since)
            for (zone, track), visit in self._visits.items()
        ]

    def finish(self) -> list[Event]:
        """Those who are in a zone at the end leave it."""
        return list(self._left(np.inf))

    def _count(self, one: TrackedObject, seconds: float) -> None:
        kind, _ = self._known.get(one.track, ("", 0.0))
        counts = self.totals.objects
        if kind != one.kind:
            counts[one.kind] = counts.get(one.kind, 0) + 1
        if kind and kind != one.kind:
            counts[kind] -= 1
            if not counts[kind]:
                del counts[kind]
        self._known[one.track] = one.kind, seconds

    def _forget(self, seconds: float) -> None:
        """Drop tracks that are gone, which never come again: memory is constant."""
        self._forgotten = seconds
        since = seconds - _GONE_SECONDS
        self._known = {track: one for track, one in self._known.items() if one[1] >= since}
        self._sides = {key: side for key, side in self._sides.items() if key[1] in self._known}

    def _at_line(self, frame: FrameAnalysis, one: TrackedObject, line: Line) -> Iterator[Event]:
        at, key = _centre(one), (line.name, one.track)
        side = _side(line, at, _BAND * self.height)
        if not side:
            return
        before, self._sides[key] = self._sides.get(key), (side, at)
        if before is None or before[0] == side:
            return
        way = Line("", before[1], at)
        if _side(way, line.start, 0) * _side(way, line.end, 0) > 0:
            return  # past an end of the line
        to = "left to right" if side > 0 else "right to left"
        self.totals.lines[line.name][to] += 1
        yield Event("line", frame.frame, frame.seconds, line.name, one.track, one.kind, to)

    def _at_zone(self, frame: FrameAnalysis, one: TrackedObject, zone: Zone) -> Iterator[Event]:
        key = zone.name, one.track
        depth = cv2.pointPolygonTest(np.array(zone.corners, np.float32), _centre(one), True)
        visit = self._visits.get(key)
        if visit is None and depth > _BAND * self.height:
            self._visits[key] = _Span(frame.seconds, frame.seconds)
            self.totals.zones[zone.name]["visits"] += 1
            yield Event("enter", frame.frame, frame.seconds, zone.name, one.track, one.kind)
        elif visit is not None and depth > -_BAND * self.height:
            visit.last = frame.seconds
        elif visit is not None:
            yield self._leave(key)

    def _left(self, before: float) -> Iterator[Event]:
        """Leave events for objects last seen in a zone before second `before`."""
        for key in [key for key, visit in self._visits.items() if visit.last < before]:
            yield self._leave(key)

    def _leave(self, key: tuple[str, int]) -> Event:
        visit, (name, track) = self._visits.pop(key), key
        dwell, sums = visit.last - visit.since, self.totals.zones[name]
        sums["seconds"] += dwell
        sums["longest"] = max(sums["longest"], dwell)
        kind, _ = self._known[track]
        return Event("leave", *self._last, name=name, track=track, object=kind, dwell=dwell)


def _centre(one: TrackedObject) -> Point:
    left, top, right, bottom = one.box.tolist()
    return (left + right) / 2, (top + bottom) / 2


def _side(line: Line, at: Point, band: float) -> int:
    """1 to the right of a line, seen from its start, -1 to the left, 0 near it."""
    way, there = np.subtract(line.end, line.start), np.subtract(at, line.start)
    distance = float(way[0] * there[1] - way[1] * there[0]) / float(np.hypot(*way))
    return 0 if abs(distance) <= band else int(np.sign(distance))


_TOKENS = re.compile(r'\s*(?:"([^"]*)"|(>=|<=|[<>])|(\d+\.?\d*|\.\d+)|([^\W\d][\w-]*)|(\S))')
_REGION = re.compile(r"\s*(zone|line)\s+([^=:]+?)\s*=(.*)")
_NAMED = re.compile(r'([^":]+):(.*)')


class Regions(NamedTuple):
    """What a file of rules says."""

    lines: tuple[Line, ...]
    zones: tuple[Zone, ...]
    rules: tuple[Rule, ...]


def parse_file(text: str, name: str) -> Regions:
    """Everything in a file of that name. Raises ConfigError with line and column."""
    lines: list[Line] = []
    zones: list[Zone] = []
    rules: list[Rule] = []
    for number, row in enumerate(text.splitlines(), 1):
        content, place = row.partition("#")[0], f"{name}:{number}"
        if region := _REGION.fullmatch(content):
            kind, title, numbers = region.groups()
            parse, found = (line_of, lines) if kind == "line" else (zone_of, zones)
            try:
                found.append(parse(title, numbers))  # type: ignore[arg-type]
            except ConfigError as error:
                raise ConfigError(f"{place}:{region.start(3) + 1}: {error}") from error
        elif content.strip():
            rules.append(parse_rule(content, place))
    if not (lines or zones or rules):
        raise ConfigError(f"{name}: it has no rule, line or zone: write one, as count person > 3")
    return Regions(tuple(lines), tuple(zones), tuple(rules))


def parse_rule(text: str, place: str = "rule") -> Rule:
    """One rule. Raises ConfigError that says `place` and the column."""
    named = _NAMED.fullmatch(text)
    name, start = (named.group(1).strip(), named.start(2)) if named else (text.strip(), 0)
    conditions = _Reader(text, start, place).conditions()
    return Rule(name, tuple(conditions), f"{place}:{len(text) - len(text.lstrip()) + 1}")


def line_of(name: str, numbers: str) -> Line:
    """From "x1,y1,x2,y2". Raises ConfigError."""
    v = _values(numbers)
    if len(v) != 4 or v[:2] == v[2:]:
        raise ConfigError(f"{numbers.strip()!r} is no line: write two points as x1,y1,x2,y2")
    return Line(name, (v[0], v[1]), (v[2], v[3]))


def zone_of(name: str, numbers: str) -> Zone:
    """From "x1,y1,x2,y2,x3,y3,...". Raises ConfigError."""
    values = _values(numbers)
    if len(values) < 6 or len(values) % 2:
        why = f"{numbers.strip()!r} is no zone: write at least three points as x1,y1,..."
        raise ConfigError(why)
    return Zone(name, tuple(zip(values[::2], values[1::2], strict=True)))


def _values(text: str) -> list[float]:
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(isfinite, values)):
        raise ConfigError(f"{text.strip()!r}: write points as x1,y1,x2,y2,... in pixels")
    return values


class _Reader:
    def __init__(self, text: str, start: int, place: str) -> None:
        self._text, self._at, self._place = text.rstrip(), start, place

    def conditions(self) -> list[Condition]:
        found = [self._condition()]
        while self._at < len(self._text):
            self._expect("and")
            found.append(self._condition())
        return found

    def _condition(self) -> Condition:
        if self._taken("activity"):
            return Activity(self._comparison(), self._number())
        if self._taken("count"):
            kind = self._word("a class, or anything")
            zone = self._word("a zone") if self._taken("in") else None
            return Count(kind, zone, self._comparison(), self._number())
        kind = self._word("a class, anything, count or activity")
        self._expect("in")
        zone = self._word("a zone")
        if not self._taken(">"):
            return Inside(kind, zone)
        seconds = self._number()
        self._expect("s")
        return Inside(kind, zone, seconds)

    def _comparison(self) -> str:
        return self._read("one of " + " ".join(COMPARE), lambda match: match.group(2))

    def _number(self) -> float:
        return float(self._read("a number", lambda match: match.group(3)))

    def _word(self, what: str) -> str:
        return self._read(what, lambda match: match.group(4) or match.group(1))

    def _expect(self, word: str) -> None:
        if not self._taken(word):
            self._fail(word)

    def _taken(self, word: str) -> bool:
        match = _TOKENS.match(self._text, self._at)
        if match is None or match.group().strip() != word:
            return False
        self._at = match.end()
        return True

    def _read(self, what: str, value: Callable[[re.Match[str]], str | None]) -> str:
        match = _TOKENS.match(self._text, self._at)
        found = match and value(match)
        if match is None or not found:
            self._fail(what)
        self._at = match.end()
        return found

    def _fail(self, wanted: str) -> NoReturn:
        rest = self._text[self._at :]
        column = self._at + len(rest) - len(rest.lstrip()) + 1
        found = repr(rest.split()[0]) if rest.strip() else "the end"
        raise ConfigError(f"{self._place}:{column}: {found} stands where {wanted} should")
