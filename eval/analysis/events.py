"""F1 of events with times, paired by the overlap in time.

As temporal detection is judged by F. C. Heilbron et al., "ActivityNet", CVPR 2015, section 4.2;
the tolerance for short events as A. Mesaros et al., "Metrics for Polyphonic Sound Event Detection",
2016.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gsvc.eval.analysis.pairing import pairs


class Event(NamedTuple):
    """Something that happens."""

    name: str
    """Which; events of different names never match."""
    start: float
    """Seconds."""
    end: float
    """Seconds; an instant ends when it starts."""


class EventScores(NamedTuple):
    """0 to 1, higher is better."""

    precision: float
    recall: float
    f1: float


def event_scores(
    truth: Sequence[Event], found: Sequence[Event], *, overlap: float = 0.5, tolerance: float = 0.5
) -> EventScores | None:
    """Of events that match one to one.

    Two match when they share `overlap` of the time that either takes, both made longer by
    `tolerance` seconds at each end. None without truth and without events found. Raises
    MissingDependencyError without scipy.
    """
    if not truth and not found:
        return None
    right = len(pairs(1 - _shared(truth, found, tolerance), 1 - overlap)[0])
    precision = right / len(found) if found else 0.0
    recall = right / len(truth) if truth else 0.0
    return EventScores(precision, recall, 2 * right / (len(truth) + len(found)))


def _shared(
    truth: Sequence[Event], found: Sequence[Event], tolerance: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Intersection over union in time, (n, m); below 0 for other names."""
    shared = np.full((len(truth), len(found)), -1.0)
    for row, one in enumerate(truth):
        for column, other in enumerate(found):
            start, end = max(one.start, other.start), min(one.end, other.end)
            whole = max(one.end, other.end) - min(one.start, other.start) + 2 * tolerance
            if one.name == other.name:
                shared[row, column] = max(0.0, end - start + 2 * tolerance) / max(whole, 1e-9)
    return shared
