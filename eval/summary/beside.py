"""Our points beside what each conventional codec's hull reaches with the same bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsvc.eval.summary.curves import OURS, Curve, Point, distance
from gsvc.eval.summary.hull import hull_at


@dataclass(frozen=True)
class BesideRow:
    """One of our points."""

    clip: str
    curve: str
    metric: str
    settings: Mapping[str, int | float | str]
    bpp: float
    value: float
    """In the metric's own unit, as those of `hulls`."""
    hulls: Mapping[str, float | None]
    """What each anchor's hull reaches at this rate; None outside the hull's rates."""


def beside_rows(found: Sequence[Curve]) -> list[BesideRow]:
    """A row for each of our points among curves of one metric."""
    anchors = [curve for curve in found if curve.is_anchor]
    return [
        _row(curve, point, [anchor for anchor in anchors if anchor.clip == curve.clip])
        for curve in found
        if curve.codec == OURS
        for point in curve.points
    ]


def _row(curve: Curve, point: Point, anchors: Sequence[Curve]) -> BesideRow:
    there = {anchor.name: hull_at(anchor.hull, point.bpp) for anchor in anchors}
    hulls = {
        name: None if found is None else distance(found, curve.higher_is_better)
        for name, found in there.items()
    }
    return BesideRow(
        curve.clip, curve.name, curve.metric, point.settings, point.bpp, point.value, hulls
    )
