"""Events that lines, zones and rules make of boxes: of truth and of what was found alike."""

from collections.abc import Iterator, Sequence

import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.datasets.annotated.boxes import Boxes
from gsvc.datasets.clips import ClipFormat
from gsvc.decoders.analysis.analyser import GONE_SECONDS
from gsvc.decoders.analysis.regions import Watcher, check_regions
from gsvc.decoders.analysis.rules import ANYTHING, Activity, RuleWatcher, check_rules
from gsvc.decoders.analysis.rules_text import Regions
from gsvc.decoders.analysis.types import Event as Told
from gsvc.decoders.analysis.types import FrameAnalysis, TrackedObject
from gsvc.eval.analysis.events import Event


def check_events(regions: Regions, labels: frozenset[str] | None) -> None:
    """Raises ConfigError for rules that boxes of a detector cannot fulfil.

    `labels`: the classes that it knows, see `Detector`.
    """
    check_rules(regions.rules, [zone.name for zone in regions.zones])
    for rule in regions.rules:
        for one in rule.conditions:
            if isinstance(one, Activity):
                raise ConfigError(f"rule {rule.name!r}: boxes have no activity: leave it out")
            if labels is None and one.kind != ANYTHING:
                raise ConfigError(
                    f"rule {rule.name!r}: the detector knows no {one.kind}: write {ANYTHING}"
                )
            if labels is not None and one.kind != ANYTHING and one.kind not in labels:
                raise ConfigError(f"rule {rule.name!r}: the detector finds no {one.kind}")


def rule_events(boxes: Boxes, regions: Regions, form: ClipFormat) -> list[Event]:
    """Visits to zones, crossings of lines and events of rules, in seconds.

    `boxes` have ids. They are watched as `gsvc analyse` watches objects. Raises ConfigError for
    regions outside of the picture.
    """
    check_regions(regions.lines, regions.zones, (form.width, form.height))
    watcher = Watcher(regions.lines, regions.zones, form.height, GONE_SECONDS)
    rules = RuleWatcher(regions.rules, GONE_SECONDS)
    told: list[Told] = []
    for frame in _frames(boxes, form):
        told += watcher.events(frame)
        told += rules.events(frame, watcher.visits())
    return [*_events([*told, *watcher.finish(), *rules.finish()])]


def _frames(boxes: Boxes, form: ClipFormat) -> Iterator[FrameAnalysis]:
    order = np.argsort(boxes.frame, kind="stable")
    rows = np.split(order, np.searchsorted(boxes.frame[order], np.arange(1, form.frames)))
    for number, here in enumerate(rows):
        objects = tuple(
            TrackedObject(str(boxes.label[n]), int(boxes.id[n]), boxes.box[n], boxes.score[n])
            for n in here
        )
        yield FrameAnalysis(number, number / float(form.frame_rate), objects)


def _events(told: Sequence[Told]) -> Iterator[Event]:
    """With start and end; those of a line are instants."""
    entered: dict[tuple[str, int], float] = {}
    for one in told:
        if one.kind == "line":
            name = f"{one.object} at {one.name}, {one.direction}"
            yield Event(name, one.seconds, one.seconds)
        elif one.kind == "enter":
            entered[one.name, one.track] = one.seconds
        elif one.kind == "leave":  # told when it is sure, which may be later than it happened
            start = entered.pop((one.name, one.track))
            yield Event(f"{one.object} in {one.name}", start, start + (one.dwell or 0.0))
        elif one.kind == "end":
            yield Event(one.name, one.seconds - (one.dwell or 0.0), one.seconds)
