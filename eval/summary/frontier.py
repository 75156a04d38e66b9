"""B*(Q0, C): the least rate that reaches quality Q0 with decoder compute of at most C.

And from it what compute buys: the slope of log rate against log compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from gsvc.eval.summary.hull import RatePoint, rate_at

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
