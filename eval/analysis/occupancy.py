"""MODA, of boxes and of places on the ground.

R. Kasturi et al., "Framework for Performance Evaluation of Face, Text, and Vehicle Detection and
Tracking in Video", 2009 (TPAMI 31.2), with both costs 1; on the ground as T. Chavdarova et al.,
"WILDTRACK", CVPR 2018, section 5: found within half a metre.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gsvc.datasets.annotated.boxes import Boxes, Places, overlaps
from gsvc.eval.analysis.pairing import LEAST_OVERLAP, pairs, without_ignored

RADIUS = 0.5
"""Metres."""

Distances = NDArray[np.float64]


def ground_moda(truth: Places, found: Places, radius: float = RADIUS) -> float | None:
    """1 less misses and false places for each true one: 1 at best, below 0 at worst.

    `radius`: metres within which a place is found. None without truth. Raises
    MissingDependencyError without scipy.
    """

    def distance(ours: NDArray[np.intp], theirs: NDArray[np.intp]) -> Distances:
        apart = truth.place[ours][:, None] - found.place[theirs][None]
        return np.asarray(np.linalg.norm(apart, axis=-1), np.float64)

    return _moda(truth, found, distance, radius)


def box_moda(truth: Boxes, found: Boxes) -> float | None:
    """The same of boxes of a class that overlap by half. See `ground_moda`."""
    ours, theirs = without_ignored(truth, found)

    def distance(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Distances:
        apart = 1 - overlaps(ours.box[rows], theirs.box[columns])
        same = ours.label[rows][:, None] == theirs.label[columns][None]
        return np.where(same, apart, np.inf)

    return _moda(ours, theirs, distance, 1 - LEAST_OVERLAP)


def _moda(
    truth: Boxes | Places,
    found: Boxes | Places,
    distance: Callable[[NDArray[np.intp], NDArray[np.intp]], Distances],
    most: float,
) -> float | None:
    if not len(truth):
        return None
    right = 0
    for frame in np.unique(truth.frame):
        ours, theirs = (np.flatnonzero(rows.frame == frame) for rows in (truth, found))
        right += len(pairs(distance(ours, theirs), most)[0])
    misses, wrong = len(truth) - right, len(found) - right
    return 1 - (misses + wrong) / len(truth)
