"""B*(Q0, C): the least rate that reaches quality Q0 with decoder compute of at most C.

Over the hulls of our own curves, in floating-point operations and in time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

import numpy as np

from gsvc.eval.summary.bd_rate import RatePoint, rate_at
from gsvc.eval.summary.curves import OURS, Curve, PointRow, distance, mean_of

_TARGETS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Dial:
    """A way to decode."""

    name: str
    compute: float
    """What it costs, above 0, in any unit."""
    hull: Sequence[RatePoint]
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
        rate = rate_at(dial.hull, target)
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
    """Geometric means, and the mean of the exponents."""
    frontiers: int
    """How many were pooled."""


def frontier_rows(curves: Sequence[Curve], rows: Sequence[PointRow]) -> list[FrontierRow]:
    """B* of every clip at three qualities that all our curves reach, in both units of compute."""
    found = []
    for clip in dict.fromkeys(curve.clip for curve in curves):
        ours = [curve for curve in curves if curve.clip == clip and curve.codec == OURS]
        for unit in UNITS:
            dials = _dials(ours, rows, unit)
            for target in targets(dials) if len(dials) > 1 else ():
                quality = distance(target, ours[0].higher_is_better)
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
    return [
        ExchangeRow(
            metric,
            unit,
            Exchange(
                exp(fmean(log(one.compute) for one in many)),
                exp(fmean(log(one.compression) for one in many)),
                fmean(one.exponent for one in many),
            ),
            len(many),
        )
        for (metric, unit), many in pooled.items()
    ]


def _dials(ours: Sequence[Curve], rows: Sequence[PointRow], unit: str) -> list[Dial]:
    """Curves with their mean compute; those where it is not counted, or nothing, are left out."""
    dials = []
    for curve in ours:
        mine = [row for row in rows if row.clip == curve.clip and row.curve == curve.name]
        compute = mean_of([r.flops_per_pixel if unit == "flops" else r.decode_ratio for r in mine])
        if compute and curve.hull:
            dials.append(Dial(curve.name, compute, curve.hull))
    return dials
