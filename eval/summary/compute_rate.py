"""What decoder compute buys in a run: B*(Q0, C) over our own hulls, in FLOPs and in time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from gsvc.eval.summary.curves import OURS, Curve, distance
from gsvc.eval.summary.frontier import Dial, Exchange, FrontierPoint, exchange, frontier, targets
from gsvc.eval.summary.points import PointRow, mean_of

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
