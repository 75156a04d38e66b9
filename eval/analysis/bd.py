"""BD-rate over accuracy: bits that a curve needs for the accuracy of another."""

from collections.abc import Iterable, Sequence

import numpy as np

from gsvc.eval.analysis.measure import SOURCE, Point
from gsvc.eval.summary.bd_rate import BdRate, bd_rate
from gsvc.eval.summary.bootstrap import Pooled, pooled_rate
from gsvc.eval.summary.hull import RatePoint, lower_hull


def curves(points: Iterable[Point]) -> list[str]:
    """The curves, each once, in the order of their first point; the source has none."""
    return list(dict.fromkeys(point.curve for point in points if point.curve != SOURCE))


def hull(points: Iterable[Point], clip: str, curve: str, accuracy: str) -> list[RatePoint]:
    """The curve's best: bits per second and 1 - accuracy, as `lower_hull`."""
    return lower_hull(
        [
            (point.bits_per_second, 1 - value)
            for point in points
            if (point.clip, point.curve) == (clip, curve)
            and (value := point.accuracies[accuracy]) is not None
        ]
    )


def differences(
    points: Sequence[Point], curve: str, anchor: str, accuracy: str
) -> dict[str, BdRate]:
    """The BD-rate of a curve against an anchor by clip."""
    clips = dict.fromkeys(point.clip for point in points)
    return {
        clip: bd_rate(*(hull(points, clip, name, accuracy) for name in (anchor, curve)))
        for clip in clips
    }


def pooled(found: dict[str, BdRate]) -> Pooled | None:
    """The mean over the clips that have one."""
    return pooled_rate([one.pchip for one in found.values() if one.pchip is not None])


def rate_for(line: Sequence[RatePoint], score: float) -> tuple[float, str]:
    """Bits per second at which a hull comes to an accuracy, and "" where it does.

    Between two points the logarithm of the rate is linear in the accuracy. Where even its lowest
    rate is better, that one and "<"; where its highest is still worse, that one and ">".
    """
    points = [(rate, 1 - far) for rate, far in sorted(line)]
    if points[0][1] > score:
        return points[0][0], "<"
    if points[-1][1] < score:
        return points[-1][0], ">"
    rates, scores = zip(*points, strict=True)
    return float(np.exp(np.interp(score, scores, np.log(rates)))), ""
