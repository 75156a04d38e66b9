"""Pairs of what is and what was found, one to one."""

import numpy as np
from numpy.typing import NDArray

from gsvc.datasets.annotated.boxes import Boxes, Ints, overlaps
from gsvc.eval.optional import optional

NEEDED = "needs more packages: pip install 'gsvc[analysis]'"
LEAST_OVERLAP = 0.5
"""Intersection over union from which on a box counts as found."""


def pairs(distance: NDArray[np.float64], most: float) -> tuple[Ints, Ints]:
    """Rows and columns of the assignment of the most pairs that are at most `most` apart.

    Among those, the one of the least sum (H. W. Kuhn, "The Hungarian Method", 1955). `distance`:
    float64 (n, m). Raises MissingDependencyError without scipy.
    """
    with optional(f"pairing {NEEDED}"):
        from scipy.optimize import linear_sum_assignment
    if not distance.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near = distance <= most
    far = 1 + min(distance.shape) * (1 + max(most, 0))  # one pair more outweighs any distances
    rows, columns = linear_sum_assignment(np.where(near, distance, far))
    kept = near[rows, columns]
    return np.asarray(rows[kept], np.int64), np.asarray(columns[kept], np.int64)


def without_ignored(truth: Boxes, found: Boxes) -> tuple[Boxes, Boxes]:
    """Truth that counts, and what was found less what lies on ignored truth alone.

    As the MOTChallenge treats distractors (Milan et al. 2016, section 4.1.2).
    """
    counts = truth.chosen(~truth.ignored)
    if len(counts) == len(truth):
        return truth, found
    kept = np.ones(len(found), bool)
    for frame in np.unique(truth.frame[truth.ignored]):
        rows = np.flatnonzero(found.frame == frame)
        on_ignored = _most(found.box[rows], truth.chosen(truth.ignored), frame)
        on_counted = _most(found.box[rows], counts, frame)
        kept[rows] = (on_ignored < LEAST_OVERLAP) | (on_counted >= LEAST_OVERLAP)
    return counts, found.chosen(kept)


def _most(boxes: NDArray[np.float64], others: Boxes, frame: int) -> NDArray[np.float64]:
    """Greatest overlap of each box with others of a frame."""
    there = overlaps(boxes, others.box[others.frame == frame])
    return np.asarray(there.max(axis=1, initial=0.0))
