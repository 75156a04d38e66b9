"""The lower convex hull of rate-distortion points, and what it says between them."""

from collections.abc import Sequence
from itertools import pairwise

RatePoint = tuple[float, float]
"""Rate (bits a pixel) and distance (lower is better)."""


def lower_hull(points: Sequence[RatePoint]) -> list[RatePoint]:
    """The lower convex hull of (bpp, distance) by rising rate, up to the least distance.

    Andrew's monotone chain (Information Processing Letters 9, 1979). Empty without points.
    """
    least: dict[float, float] = {}
    for bpp, distance in sorted(points):
        least.setdefault(bpp, distance)
    hull: list[RatePoint] = []
    for point in least.items():
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    lowest = min(range(len(hull)), key=lambda index: hull[index][1], default=-1)
    return hull[: lowest + 1]


def hull_at(hull: Sequence[RatePoint], bpp: float) -> float | None:
    """The hull's distance at a rate, linear between its points; None outside its range of rates."""
    if len(hull) == 1 and hull[0][0] == bpp:
        return hull[0][1]
    for (left, above), (right, below) in pairwise(hull):
        if left <= bpp <= right:
            return above + (below - above) * (bpp - left) / (right - left)
    return None


def rate_at(hull: Sequence[RatePoint], distance: float) -> float | None:
    """The least rate at which the hull is as near as `distance`, linear between its points.

    The rate of its first point where that is nearer already; None where no point is as near.
    """
    if not hull or hull[-1][1] > distance:
        return None
    if hull[0][1] <= distance:
        return hull[0][0]
    for (left, above), (right, below) in pairwise(hull):
        if below <= distance <= above:
            return left + (right - left) * (above - distance) / (above - below)
    return None


def _turn(a: RatePoint, b: RatePoint, c: RatePoint) -> float:
    """Positive when b lies below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
