"""Every curve compared with the hull of every anchor: per clip, and pooled over clips.

The headline is the worse of the judges' pooled BD-rates against SVT-AV1's hull. The slideshow test
asks which metrics prefer held key pictures to a video that moves. B*(Q0, C) is the least rate that
reaches quality Q0 with decoder compute of at most C, over the hulls of our own curves.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log
from statistics import fmean, geometric_mean
from typing import Any, NamedTuple

import numpy as np

from gsvc.eval.summary import bd_rate, curves
from gsvc.eval.summary.curves import Curve, CurvePoint, PointRow

_SCALES_OF_FIELD = ("x265", "svtav1")
"""Anchors that other anchors are measured against: it shows the field's own ranking."""


@dataclass(frozen=True)
class BdComparison:
    """The BD-rate of `test` against the hull of `anchor` on one clip in one metric."""

    clip: str
    metric: str
    test: str
    anchor: str
    result: bd_rate.BdRate
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
    pchip: bd_rate.Pooled | None
    akima: bd_rate.Pooled | None
    left_out: tuple[str, ...]
    """Clips without a BD-rate, and why."""
    doubts: str = ""
    """As `bd_rate.doubts`."""


def bd_comparisons(found: Sequence[Curve]) -> list[BdComparison]:
    """Pairs of one metric's curves by clip; anchors against each other where they are alone."""
    alone = all(curve.is_anchor for curve in found)
    return [
        _compared(anchor, test)
        for anchor in found
        for test in found
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
            *names,
            bd_rate.pooled_rate(one.result.pchip for one in group),
            bd_rate.pooled_rate(one.result.akima for one in group),
            tuple(f"{one.clip}: {one.result.note}" for one in group if one.result.note),
            bd_rate.doubts(one.result for one in group),
        )
        for names, group in groups.items()
    ]


def _compared(anchor: Curve, test: Curve) -> BdComparison:
    result = bd_rate.bd_rate(anchor.hull, test.hull)
    ends = sorted(curves.distance(edge, test.higher_is_better) for edge in result.shared or ())
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
    rates: dict[str, bd_rate.Pooled | None]
    """Pooled BD-rates in per cent by judge; None where no clip has one."""
    worse: float | None
    """The greatest of the means; None unless every judge has one."""
    judge: str
    """Whose it is."""
    doubts: dict[str, str]
    """As `bd_rate.doubts`, by judge."""


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
    metrics: Sequence[curves.MetricInfo],
    unmeasured: Sequence[curves.Unmeasured],
    not_run: Mapping[str, str],
) -> Headline:
    """From pooled comparisons. `not_run`: reasons by name, such as "metric cvvdp"."""
    measured = {metric.name for metric in metrics if metric.version}
    found: dict[str, dict[str, PooledBdComparison]] = {}
    for one in pooled:
        if one.anchor == HEADLINE_ANCHOR and one.metric in curves.PRIMARY:
            found.setdefault(one.test, {})[one.metric] = one
            measured.add(one.metric)  # kept tables know no versions
    missing = {}
    for judge in curves.PRIMARY:
        reasons = [one.reason for one in unmeasured if one.metric == judge]
        reasons.append(f"not asked for: add --metric {judge}")
        if judge not in measured:
            missing[judge] = not_run.get(f"metric {judge}") or reasons[0]
    codec = {curve: curve.split(",")[0] for curve in found}
    order = sorted(found, key=lambda one: (codec[one] != curves.OURS, codec[one] not in FLOORS))
    return Headline(HEADLINE_ANCHOR, missing, [_row(curve, found[curve]) for curve in order])


def other_anchor(points: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """A sentence if SVT-AV1 ran, but not as in our results. `points`: codec, settings."""
    from gsvc.eval.baselines import BEST_PRESETS, BEST_SCALES

    ran = {(one.get("preset"), str(one.get("scale"))) for n, one in points if n == HEADLINE_ANCHOR}
    if ran and not ran.issuperset(product(BEST_PRESETS.split("+"), BEST_SCALES.split("+"))):
        yield f"our results have SVT-AV1 at {BEST_PRESETS}, {BEST_SCALES}: add --codec svtav1-best"


def _row(curve: str, found: Mapping[str, PooledBdComparison]) -> HeadlineRow:
    rates = {judge: one.pchip for judge, one in found.items()}
    means = {judge: one.mean for judge, one in rates.items() if one is not None}
    worst = max(means, key=lambda k: means[k]) if set(means) == set(curves.PRIMARY) else ""
    doubts = {judge: one.doubts for judge, one in found.items()}
    return HeadlineRow(curve, rates, means.get(worst), worst, doubts)


SLIDESHOW = "hold"
_MOVES = 0.01  # the share of moving pixels from which a clip moves


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
    pooled: bd_rate.Pooled | None
    """BD-rates of the clips that move; None where none has one."""
    clips: list[SlideshowClip]


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
    verdicts = []
    for metric, clips in tests.items():
        pooled = bd_rate.pooled_rate(one.rate for one in clips if one.moves)
        won = [one.wins for one in clips if one.moves and one.wins is not None]
        passes = pooled.mean > 0 if pooled else not any(won) if won else None
        verdicts.append(SlideshowTest(metric, passes, pooled, clips))
    return verdicts


def _wins(
    result: bd_rate.BdRate, held: Sequence[CurvePoint], coded: Sequence[CurvePoint]
) -> bool | None:
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
    rows = []
    for curve in (curve for curve in found if curve.codec == curves.OURS):
        of_curve = curve.clip, curve.name, curve.metric
        anchors = [one for one in found if one.is_anchor and one.clip == curve.clip]
        for point in curve.points:
            hulls = {anchor.name: anchor.value_at(point.bpp) for anchor in anchors}
            rows.append(BesideRow(*of_curve, point.settings, point.bpp, point.value, hulls))
    return rows


FIXED_RATES = 0.001, 0.002, 0.003, 0.006, 0.012
"""Bits per pixel at which quality is told: BD-rates see nothing below an anchor's least rate."""


@dataclass(frozen=True)
class FixedRateRow:
    """A curve's quality at `FIXED_RATES`, by its lower hull."""

    clip: str
    curve: str
    metric: str
    is_anchor: bool
    values: tuple[float | None, ...]
    """In the metric's own unit; None outside the hull's rates."""


def fixed_rate_rows(found: Sequence[Curve]) -> list[FixedRateRow]:
    """A row for each of the curves of one metric."""
    return [
        FixedRateRow(c.clip, c.name, c.metric, c.is_anchor, tuple(map(c.value_at, FIXED_RATES)))
        for c in found
    ]


_TARGETS = (0.25, 0.5, 0.75)


class Dial(NamedTuple):
    """A way to decode."""

    name: str
    compute: float
    """What it costs, above 0, in any unit."""
    hull: Sequence[bd_rate.RatePoint]
    """(bpp, distance)."""


@dataclass(frozen=True)
class FrontierPoint:
    """The least rate with a compute."""

    target: float
    """The distance to reach."""
    compute: float
    bpp: float | None
    """None where the distance is not reached."""
    name: str
    """The dial that reaches it."""


@dataclass(frozen=True)
class Exchange:
    """`compute`-fold compute buys `compression`-fold compression."""

    compute: float
    compression: float
    exponent: float
    """The fitted slope: B* ~ C^-exponent."""


PUBLISHED = Exchange(100, 4, log(4) / log(100))
"""The claim to compare with: 100-fold compute buys 4-fold compression."""


def targets(dials: Sequence[Dial]) -> list[float]:
    """Three distances spread over the range that every dial reaches; none without such a range."""
    hulls = [dial.hull for dial in dials if dial.hull]
    if not hulls:
        return []
    least, greatest = max(hull[-1][1] for hull in hulls), min(hull[0][1] for hull in hulls)
    if least >= greatest:
        return []
    return [greatest - share * (greatest - least) for share in _TARGETS]


def frontier(dials: Sequence[Dial], target: float) -> list[FrontierPoint]:
    """B*(target, C) at the compute of each dial, by rising compute: the rate never rises."""
    points: list[FrontierPoint] = []
    best: tuple[float, str] | None = None
    for dial in sorted(dials, key=lambda dial: dial.compute):
        rate = bd_rate.rate_at(dial.hull, target)
        if rate is not None and (best is None or rate < best[0]):
            best = rate, dial.name
        rate, name = best if best else (None, "")
        points.append(FrontierPoint(target, dial.compute, rate, name))
    return points


def exchange(points: Sequence[FrontierPoint]) -> Exchange | None:
    """What compute buys along one frontier, from its first reached point to its last.

    The exponent is fitted by least squares over the logs of all reached points. B* never rises, so
    a slope above 0 is rounding. None with fewer than two points reached.
    """
    reached = [(point.compute, point.bpp) for point in points if point.bpp]
    if len(reached) < 2 or reached[0][0] == reached[-1][0]:
        return None
    logs = np.log(np.array(reached))
    slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
    (first, dear), (last, cheap) = reached[0], reached[-1]
    return Exchange(last / first, dear / cheap, max(0.0, -slope))


def mean_exchange(many: Sequence[Exchange]) -> Exchange:
    """Geometric means, and the mean of the exponents."""
    return Exchange(
        geometric_mean(one.compute for one in many),
        geometric_mean(one.compression for one in many),
        fmean(one.exponent for one in many),
    )


UNITS = {
    "flops": "FLOPs per pixel of a frame, counted in the networks; steps 0 runs none",
    "time": "decoding time as a multiple of x265 slow encoding; with steps 0: motion and rendering",
}


@dataclass(frozen=True)
class FrontierRow:
    """One point of B*(Q0, C)."""

    clip: str
    metric: str
    unit: str
    """Of `point.compute`: a key of `UNITS`."""
    quality: float
    """Q0 in the metric's own unit."""
    point: FrontierPoint


@dataclass(frozen=True)
class ExchangeRow:
    """What compute buys over clips and targets."""

    metric: str
    unit: str
    exchange: Exchange
    """As of `mean_exchange`."""
    frontiers: int
    """How many were pooled."""


def frontier_rows(every: Sequence[Curve], rows: Sequence[PointRow]) -> list[FrontierRow]:
    """B* of every clip at three qualities that all our curves reach, in both units of compute."""
    found = []
    for clip in dict.fromkeys(curve.clip for curve in every):
        ours = [curve for curve in every if curve.clip == clip and curve.codec == curves.OURS]
        for unit in UNITS:
            dials = _dials(ours, rows, unit)
            for target in targets(dials) if len(dials) > 1 else ():
                quality = curves.distance(target, ours[0].higher_is_better)
                found += [
                    FrontierRow(clip, ours[0].metric, unit, quality, point)
                    for point in frontier(dials, target)
                ]
    return found


def exchange_rows(rows: Sequence[FrontierRow]) -> list[ExchangeRow]:
    """Each metric's exchange, pooled over every clip and quality that has one."""
    lines: dict[tuple[str, str, str, float], list[FrontierPoint]] = defaultdict(list)
    for row in rows:
        lines[row.metric, row.unit, row.clip, row.quality].append(row.point)
    pooled: dict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for (metric, unit, _, _), points in lines.items():
        if one := exchange(points):
            pooled[metric, unit].append(one)
    return [ExchangeRow(*key, mean_exchange(many), len(many)) for key, many in pooled.items()]


def _dials(ours: Sequence[Curve], rows: Sequence[PointRow], unit: str) -> list[Dial]:
    """Curves with their mean compute; those where it is not counted, or nothing, are left out."""
    dials = []
    for curve in ours:
        mine = [row for row in rows if row.clip == curve.clip and row.curve == curve.name]
        name = "flops_per_pixel" if unit == "flops" else "decode_ratio"
        compute = curves.mean_of([getattr(row, name) for row in mine])
        if compute and curve.hull:
            dials.append(Dial(curve.name, compute, curve.hull))
    return dials
