"""Rules, lines and zones as text.

    # who stays before the door
    zone door = 300,150,768,150,768,450
    line gate = 400,150,600,400
    long visit: person in door > 5 s
    crowd: count person > 3 and activity > 0.1

A rule without a name is named by its own words. A name of several words stands in double quotes
within a rule.
"""

import re
from collections.abc import Callable
from math import isfinite
from typing import NamedTuple, NoReturn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.detection.rules import (
    COMPARE,
    Activity,
    Condition,
    Count,
    Inside,
    Line,
    Rule,
    Zone,
)

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
        raise ConfigError(
            f"{numbers.strip()!r} is no zone: write at least three points as x1,y1,..."
        )
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
    """Reads conditions word by word."""

    def __init__(self, text: str, start: int, place: str) -> None:
        self._text, self._at, self._place = text.rstrip(), start, place

    def conditions(self) -> list[Condition]:
        found = [self._condition()]
        while not self._at_end():
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
        return Inside(kind, zone, self._seconds() if self._taken(">") else 0.0)

    def _seconds(self) -> float:
        value = self._number()
        self._expect("s")
        return value

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

    def _at_end(self) -> bool:
        return self._at >= len(self._text)

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
