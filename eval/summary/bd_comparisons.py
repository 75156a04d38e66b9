"""Every curve compared with the hull of every anchor: per clip, and pooled over clips.

The headline is the worse of the judges' pooled BD-rates against SVT-AV1's hull. The slideshow test
asks which metrics prefer held key pictures to a video that moves.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gsvc.eval.summary.bd_rate import BdRate, Pooled, bd_rate, hull_at, pooled_rate
from gsvc.eval.summary.curves import (
    OURS,
    PRIMARY,
    Curve,
    CurvePoint,
    MetricInfo,
    Unmeasured,
    distance,
)

_SCALES_OF_FIELD = ("x265", "svtav1")
"""Anchors that other anchors are measured against: it shows the field's own ranking."""


@dataclass(frozen=True)
class BdComparison:
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
class PooledBdComparison:
    """BD-rates of one pair over clips."""

    metric: str
    test: str
    anchor: str
    pchip: Pooled | None
    akima: Pooled | None
    left_out: tuple[str, ...]
    """Clips without a BD-rate, and why."""


def bd_comparisons(curves: Sequence[Curve]) -> list[BdComparison]:
    """All pairs among curves of one metric, clip by clip.

    Anchors are measured against each other where no other codec is there to be measured.
    """
    alone = all(curve.is_anchor for curve in curves)
    return [
        _compared(anchor, test)
        for anchor in curves
        for test in curves
        if anchor.is_anchor and (alone or anchor.codec in _SCALES_OF_FIELD or not test.is_anchor)
        if anchor.clip == test.clip and anchor.name != test.name
    ]


def pooled_bd_comparisons(found: Sequence[BdComparison]) -> list[PooledBdComparison]:
    """The same pairs pooled over the clips that have a BD-rate."""
    groups: dict[tuple[str, str, str], list[BdComparison]] = defaultdict(list)
    for pair in found:
        groups[pair.metric, pair.test, pair.anchor].append(pair)
    return [
        PooledBdComparison(
            metric,
            test,
            anchor,
            pooled_rate([one.result.pchip for one in group if one.result.pchip is not None]),
            pooled_rate([one.result.akima for one in group if one.result.akima is not None]),
            tuple(f"{one.clip}: {one.result.note}" for one in group if one.result.note),
        )
        for (metric, test, anchor), group in groups.items()
    ]


def _compared(anchor: Curve, test: Curve) -> BdComparison:
    result = bd_rate(anchor.hull, test.hull)
    ends = sorted(distance(edge, test.higher_is_better) for edge in result.shared or ())
    values = (ends[0], ends[-1]) if ends else None
    empty = [f"{c.name} at {s}" for c in (anchor, test) for s in c.without_bits]
    note = f"no bits, left out: {', '.join(empty)}" if empty else ""
    return BdComparison(anchor.clip, test.metric, test.name, anchor.name, result, values, note)


HEADLINE_ANCHOR = "svtav1"
FLOORS = ("hold", "motion")


@dataclass(frozen=True)
class HeadlineRow:
    """One curve against the anchor's hull."""

    curve: str
    rates: dict[str, Pooled | None]
    """Pooled BD-rates in per cent by judge; None where no clip has one."""
    worse: float | None
    """The greatest of the means; None unless every judge has one."""
    judge: str
    """Whose it is."""


@dataclass(frozen=True)
class Headline:
    """The headline of a run."""

    anchor: str
    missing: dict[str, str]
    """Judges without any number in this run, and why."""
    rows: list[HeadlineRow]
    """Ours, the floors, then the others."""


def headline(
    pooled: Sequence[PooledBdComparison],
    metrics: Sequence[MetricInfo],
    unmeasured: Sequence[Unmeasured],
    not_run: Mapping[str, str],
) -> Headline:
    """From pooled comparisons. `not_run`: reasons by name, such as "metric cvvdp"."""
    measured = {metric.name for metric in metrics if metric.version}
    missing = {
        judge: _why(judge, unmeasured, not_run) for judge in PRIMARY if judge not in measured
    }
    rates: dict[str, dict[str, Pooled | None]] = {}
    for one in pooled:
        if one.anchor == HEADLINE_ANCHOR and one.metric in PRIMARY:
            rates.setdefault(one.test, {})[one.metric] = one.pchip
    return Headline(
        HEADLINE_ANCHOR, missing, [_row(curve, rates[curve]) for curve in sorted(rates, key=_place)]
    )


def _row(curve: str, rates: dict[str, Pooled | None]) -> HeadlineRow:
    means = {judge: one.mean for judge, one in rates.items() if one is not None}
    if set(means) != set(PRIMARY):
        return HeadlineRow(curve, rates, None, "")
    judge = max(means, key=lambda name: means[name])
    return HeadlineRow(curve, rates, means[judge], judge)


def _place(curve: str) -> tuple[bool, bool]:
    codec = curve.split(",")[0]
    return codec != OURS, codec not in FLOORS


def _why(judge: str, unmeasured: Sequence[Unmeasured], not_run: Mapping[str, str]) -> str:
    reasons: Iterator[str] = (one.reason for one in unmeasured if one.metric == judge)
    return not_run.get(f"metric {judge}") or next(reasons, f"not asked for: add --metric {judge}")


SLIDESHOW = "hold"
_MOVES = 0.01
"""The share of moving pixels from which a clip moves."""


@dataclass(frozen=True)
class SlideshowClip:
    """The slideshow against AV1 on one clip in one metric."""

    clip: str
    moves: bool
    rate: float | None
    """BD-rate in per cent; None: see `note`."""
    wins: bool | None
    """Whether the slideshow needs fewer bits; where no quality is shared, whether it is better at
    equal bits. None where it cannot be told.
    """
    note: str


@dataclass(frozen=True)
class SlideshowTest:
    """The verdict on one metric."""

    metric: str
    passes: bool | None
    """Whether the slideshow loses on the clips that move: pooled, or else on every one of them.

    None where none of them can tell.
    """
    pooled: Pooled | None
    """BD-rates of the clips that move; None where none has one."""
    clips: list[SlideshowClip]

    @property
    def won(self) -> list[str]:
        """The clips on which the slideshow wins."""
        return [one.clip for one in self.clips if one.wins]


def slideshow_tests(
    comparisons: Sequence[BdComparison],
    found: Mapping[str, Sequence[Curve]],
    moving: Mapping[str, float],
) -> list[SlideshowTest]:
    """One for each metric in which the run has the slideshow and AV1.

    `found`: the curves of `comparisons` by metric; `moving`: the share of moving pixels by clip; a
    clip that is not in it counts as moving.
    """
    tests: dict[str, list[SlideshowClip]] = {}
    for pair in comparisons:
        if (pair.test, pair.anchor) == (SLIDESHOW, HEADLINE_ANCHOR):
            moves = moving.get(pair.clip, 1.0) >= _MOVES
            mine = {curve.name: curve for curve in found[pair.metric] if curve.clip == pair.clip}
            wins = _wins(pair.result, mine[SLIDESHOW].points, mine[HEADLINE_ANCHOR].points)
            one = SlideshowClip(pair.clip, moves, pair.result.pchip, wins, pair.result.note)
            tests.setdefault(pair.metric, []).append(one)
    return [_test(metric, clips) for metric, clips in tests.items()]


def _test(metric: str, clips: list[SlideshowClip]) -> SlideshowTest:
    pooled = pooled_rate([one.rate for one in clips if one.moves and one.rate is not None])
    won = [one.wins for one in clips if one.moves and one.wins is not None]
    passes = pooled.mean > 0 if pooled else not any(won) if won else None
    return SlideshowTest(metric, passes, pooled, clips)


def _wins(result: BdRate, held: Sequence[CurvePoint], coded: Sequence[CurvePoint]) -> bool | None:
    """`held`, `coded`: the slideshow's and AV1's points by rising rate."""
    if result.pchip is not None:
        return result.pchip < 0
    ends = result.ratio
    if ends is None:
        return None
    if ends.test_distance == ends.anchor_distance:
        return ends.ratio < 1
    # One is better than the other at all of its rates: some of these must be the other's too.
    if ends.test_distance < ends.anchor_distance:
        return True if held[0].bpp <= coded[-1].bpp else None
    return False if held[-1].bpp >= coded[0].bpp else None


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
        _beside_row(curve, point, [anchor for anchor in anchors if anchor.clip == curve.clip])
        for curve in found
        if curve.codec == OURS
        for point in curve.points
    ]


def _beside_row(curve: Curve, point: CurvePoint, anchors: Sequence[Curve]) -> BesideRow:
    there = {anchor.name: hull_at(anchor.hull, point.bpp) for anchor in anchors}
    hulls = {
        name: None if found is None else distance(found, curve.higher_is_better)
        for name, found in there.items()
    }
    return BesideRow(
        curve.clip, curve.name, curve.metric, point.settings, point.bpp, point.value, hulls
    )
