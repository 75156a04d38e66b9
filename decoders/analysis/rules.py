"""Rules: what a user calls an event, and when it holds."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import NamedTuple

from gsvc.codec.errors import ConfigError
from gsvc.codec.typed import typed
from gsvc.decoders.analysis.types import Event, FrameAnalysis

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
            raise ConfigError(
                f"{_at(last)}two rules are named {rule.name!r}: name them as NAME: RULE"
            )
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
    since: float
    last: float
    frame: int


@dataclass
class RuleWatcher:
    """Tells when rules begin and cease to hold, frame by frame."""

    rules: tuple[Rule, ...]
    patience: float
    """Seconds for which a rule may fail without its event's end."""
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
            elif span is not None and frame.seconds - span.last > self.patience:
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
