"""Every curve against the hull of every anchor: per clip, and pooled over clips."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.eval.summary.bd_rate import BdRate, bd_rate
from gsvc.eval.summary.bootstrap import Pooled, pooled_rate
from gsvc.eval.summary.curves import Curve, distance

_SCALES_OF_FIELD = ("x265", "svtav1")
"""Anchors that other anchors are measured against: it shows the field's own ranking."""


@dataclass(frozen=True)
class Duel:
    """The BD-rate of `test` against the hull of `anchor` on one clip in one metric."""

    clip: str
    metric: str
    test: str
    anchor: str
    result: BdRate
    shared_values: tuple[float, float] | None
    """`result.shared` in the metric's own unit."""
    note: str
    """Empty streams that were left out."""


@dataclass(frozen=True)
class PooledDuel:
    """BD-rates of one pair over clips."""

    metric: str
    test: str
    anchor: str
    pchip: Pooled | None
    akima: Pooled | None
    left_out: tuple[str, ...]
    """Clips without a BD-rate, and why."""


def duels(curves: Sequence[Curve]) -> list[Duel]:
    """All pairs among curves of one metric, clip by clip.

    Anchors are measured against each other where no other codec is there to be measured.
    """
    alone = all(curve.is_anchor for curve in curves)
    return [
        _duel(anchor, test)
        for anchor in curves
        for test in curves
        if anchor.is_anchor and (alone or anchor.codec in _SCALES_OF_FIELD or not test.is_anchor)
        if anchor.clip == test.clip and anchor.name != test.name
    ]


def pooled_duels(found: Sequence[Duel]) -> list[PooledDuel]:
    """The same pairs pooled over the clips that have a BD-rate."""
    groups: dict[tuple[str, str, str], list[Duel]] = defaultdict(list)
    for duel in found:
        groups[duel.metric, duel.test, duel.anchor].append(duel)
    return [
        PooledDuel(
            metric,
            test,
            anchor,
            pooled_rate([one.result.pchip for one in group if one.result.pchip is not None]),
            pooled_rate([one.result.akima for one in group if one.result.akima is not None]),
            tuple(f"{one.clip}: {one.result.note}" for one in group if one.result.note),
        )
        for (metric, test, anchor), group in groups.items()
    ]


def _duel(anchor: Curve, test: Curve) -> Duel:
    result = bd_rate(anchor.hull, test.hull)
    ends = sorted(distance(edge, test.higher_is_better) for edge in result.shared or ())
    values = (ends[0], ends[-1]) if ends else None
    empty = [f"{c.name} at {s}" for c in (anchor, test) for s in c.without_bits]
    note = f"no bits, left out: {', '.join(empty)}" if empty else ""
    return Duel(anchor.clip, test.metric, test.name, anchor.name, result, values, note)
