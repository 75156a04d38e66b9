"""A number pooled over clips, with a bootstrap interval over clips."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

SEED = 20_260_101
RESAMPLES = 10_000
COVERAGE = 0.95


@dataclass(frozen=True)
class Pooled:
    """A mean over clips with its 95 % interval."""

    mean: float
    low: float | None
    """None below three clips, as `high`."""
    high: float | None
    clips: int


def pooled_rate(percents: Sequence[float]) -> Pooled | None:
    """Rate differences in per cent, pooled by the mean of their log ratios; None without any.

    The mean of ratios is not the ratio of means: -50 % and +100 % pool to 0. The interval is the
    percentile bootstrap (Efron 1979): clips are drawn with replacement, with a fixed seed.
    """
    if not percents:
        return None
    logs = np.array([log(1 + percent / 100) for percent in percents])
    low = high = None
    if len(logs) > 2:
        drawn = np.random.default_rng(SEED).integers(len(logs), size=(RESAMPLES, len(logs)))
        tail = 50 * (1 - COVERAGE)
        low, high = (
            _percent(float(edge))
            for edge in np.percentile(logs[drawn].mean(axis=1), [tail, 100 - tail])
        )
    return Pooled(_percent(float(logs.mean())), low, high, len(logs))


def _percent(log_ratio: float) -> float:
    return 100 * (exp(log_ratio) - 1)
