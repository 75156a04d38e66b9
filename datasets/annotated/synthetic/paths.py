"""Where things go on the ground."""

import numpy as np
from numpy.typing import NDArray

from gsvc.datasets.annotated.boxes import Floats

SIDE = 12.0
"""Metres of the square, 0 to SIDE in x and y, that everything moves in."""
_APART = 0.7
"""Metres that two things keep between them, where a path that does is found."""
_TRIES = 40


def walk(random: np.random.Generator, steps: int, stride: float, others: list[Floats]) -> Floats:
    """A path through the square that keeps away from others': float64 (steps, 2), metres.

    It goes straight from one random place to the next, `stride` metres a step; 0 stands still.
    """
    best, most = np.zeros((steps, 2)), -1.0
    for _ in range(_TRIES):
        path = _walk(random, steps, stride)
        nearest = min((float(_distance(path, other).min()) for other in others), default=_APART)
        if nearest > most:
            best, most = path, nearest
        if most >= _APART:
            break
    return best


def _walk(random: np.random.Generator, steps: int, stride: float) -> Floats:
    place, goal = random.uniform(0.5, SIDE - 0.5, (2, 2))
    path = np.empty((steps, 2))
    for index in range(steps):
        path[index] = place
        while np.linalg.norm(goal - place) <= stride:
            goal = random.uniform(0.5, SIDE - 0.5, 2)
        place = place + stride * (goal - place) / np.linalg.norm(goal - place)
    return path


def _distance(one: Floats, other: Floats) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(one - other, axis=1))
