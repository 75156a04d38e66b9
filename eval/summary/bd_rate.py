"""BD-rate of one rate-distortion curve against another, and its mean over clips."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from math import exp, isfinite, log

import numpy as np

from gsvc.eval.late_loading import optional

RatePoint = tuple[float, float]
"""Rate (bits a pixel) and distance (lower is better)."""


def lower_hull(points: Sequence[RatePoint]) -> list[RatePoint]:
    """The lower convex hull of (bpp, distance) by rising rate, up to the least distance.

    Andrew's monotone chain (Information Processing Letters 9, 1979). Empty without points.
    """
    hull: list[RatePoint] = []
    for point in sorted(dict(sorted(points, reverse=True)).items()):  # the best of each rate
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
    """The least rate at which the hull is as near as `distance`; None where no point is as near."""
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


SEED = 20_260_101
RESAMPLES = 10_000
COVERAGE = 0.95
LEAST_CLIPS = 3
"""Below which no interval is told."""


@dataclass(frozen=True)
class Pooled:
    """A mean over clips with its 95 % interval."""

    mean: float
    low: float | None
    """None below `LEAST_CLIPS`, as `high`."""
    high: float | None
    clips: int


def pooled_rate(percents: Iterable[float | None]) -> Pooled | None:
    """Rate differences in per cent, pooled by the mean of their log ratios; None without any.

    The mean of ratios is not the ratio of means: -50 % and +100 % pool to 0. The interval is the
    percentile bootstrap (Efron 1979): clips are drawn with replacement, with a fixed seed.
    """
    logs = np.array([log(1 + percent / 100) for percent in percents if percent is not None])
    if not logs.size:
        return None
    low = high = None
    if len(logs) >= LEAST_CLIPS:
        drawn = np.random.default_rng(SEED).integers(len(logs), size=(RESAMPLES, len(logs)))
        tail = 50 * (1 - COVERAGE)
        edges = np.percentile(logs[drawn].mean(axis=1), [tail, 100 - tail])
        low, high = map(_percent, map(float, edges))
    return Pooled(_percent(float(logs.mean())), low, high, len(logs))


def _percent(log_ratio: float) -> float:
    return 100 * (exp(log_ratio) - 1)


NO_OVERLAP = "no overlap"
LEAST_SHARE = 0.01
"""Share of two curves' range up to which they have no BD-rate: it would be that of a point."""
SINGLE_POINT = "single point"
NO_POINTS = "no points"
NO_BITS = "streams of no bits"


@dataclass(frozen=True)
class RateRatio:
    """Rates of two curves at the nearest qualities that they have."""

    ratio: float
    """Test over anchor."""
    test_distance: float
    anchor_distance: float


@dataclass(frozen=True)
class BdRate:
    """Mean difference in rate at equal quality, in per cent; negative: the test needs less."""

    pchip: float | None = None
    akima: float | None = None
    shared: tuple[float, float] | None = None
    """Least and greatest distance that both reach."""
    share: float = 0.0
    """Of the shared range in the range that either reaches."""
    lacks: tuple[str, str] = ("", "")
    """Where the most is not shared: rates "below" or "above" those of "test" or "anchor"."""
    points: int = 0
    """Of the hull that has fewer."""
    note: str = ""
    """Why there is no BD-rate."""
    ratio: RateRatio | None = None
    """In place of a BD-rate."""


def bd_rate(anchor: Sequence[RatePoint], test: Sequence[RatePoint]) -> BdRate:
    """Compare two lower hulls (bpp, distance). MissingDependencyError without `bjontegaard`."""
    if not anchor or not test:
        return BdRate(note=NO_POINTS)
    if min(anchor[0][0], test[0][0]) <= 0:
        return BdRate(note=NO_BITS)
    least, greatest = max(anchor[-1][1], test[-1][1]), min(anchor[0][1], test[0][1])
    single = min(len(anchor), len(test)) == 1
    if single or quality_share(anchor, test) <= LEAST_SHARE:
        note = SINGLE_POINT if single and least <= greatest else NO_OVERLAP
        return BdRate(note=note, ratio=_nearest(anchor, test, least, greatest))
    low, high = anchor[0][1] - test[0][1], test[-1][1] - anchor[-1][1]  # positive: the test lacks
    side, more = ("below", low) if abs(low) > abs(high) else ("above", high)
    return BdRate(
        pchip=_integrate(anchor, test, "pchip"),
        akima=_integrate(anchor, test, "akima"),
        shared=(least, greatest),
        share=quality_share(anchor, test),
        lacks=(side, "test" if more > 0 else "anchor"),
        points=min(len(anchor), len(test)),
    )


def quality_share(anchor: Sequence[RatePoint], test: Sequence[RatePoint]) -> float:
    """What both hulls reach of the distances that either does; each has two points at least."""
    (worst, *_, best), (worse, *_, better) = ([point[1] for point in one] for one in (anchor, test))
    return (min(worst, worse) - max(best, better)) / (max(worst, worse) - min(best, better))


NARROW = 0.5
"""Share of two curves' range below which their BD-rate says little, as in `bjontegaard`."""
TWO_POINTS = ", 2 points"


def doubts(results: Iterable[BdRate]) -> str:
    """What makes BD-rates say little, at worst: ", 11 % shared", a hull of two points; or empty."""
    told = [one for one in results if one.pchip is not None]
    share = min((one.share for one in told), default=1)
    few = any(one.points == 2 for one in told)
    return f", {below(share)} % shared" * (share < NARROW) + TWO_POINTS * few


def below(share: float) -> str:
    """Per cent of a share under `NARROW`, never rounded up to it."""
    return f"{min(100 * share, 100 * NARROW - 1):.0f}"


def _nearest(
    anchor: Sequence[RatePoint], test: Sequence[RatePoint], least: float, greatest: float
) -> RateRatio:
    """At a quality both reach, else between the nearest ends: one's worst and the other's best."""
    if least <= greatest:
        here, there = rate_at(test, least), rate_at(anchor, least)
        assert here is not None and there is not None, "both hulls reach a shared distance"
        return RateRatio(here / there, least, least)
    one, other = (test[-1], anchor[0]) if test[-1][1] > anchor[0][1] else (test[0], anchor[-1])
    return RateRatio(one[0] / other[0], one[1], other[1])


def _integrate(anchor: Sequence[RatePoint], test: Sequence[RatePoint], method: str) -> float | None:
    lines = [
        part
        for hull in (anchor, test)
        for part in ([bpp for bpp, _ in hull], [-distance for _, distance in hull])
    ]
    with optional("BD-rates need the package bjontegaard: pip install 'gsvc[eval]'"):
        package = import_module("bjontegaard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of little overlap: `share` says how much there is
        told = package.bd_rate(*lines, method, require_matching_points=False, min_overlap=0)
    return float(told) if isfinite(told) else None
