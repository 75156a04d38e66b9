"""Boxes: what they share."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.analysis.types import Box


def shared(a: Box, b: Box) -> float:
    """Area of both, in square pixels."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    return float(np.prod(np.maximum(high - low, 0)))


def area(box: Box) -> float:
    """In square pixels; 0 for a box without inside."""
    return shared(box, box)


def within(inner: Box, outer: Box) -> float:
    """Share of a box within another, 0 to 1."""
    return shared(inner, outer) / max(area(inner), 1e-9)


def clipped(box: Box, size: tuple[int, int]) -> Box:
    """What of a box lies within a picture of that width and height."""
    return np.clip(box, 0, np.tile(size, 2))


def overlap(ours: Sequence[Box], others: Sequence[Box]) -> NDArray[np.float64]:
    """Intersection over union of every pair: float64 (ours, others)."""
    result = np.zeros((len(ours), len(others)))
    for row, a in enumerate(ours):
        for column, b in enumerate(others):
            both = shared(a, b)
            result[row, column] = both / max(area(a) + area(b) - both, 1e-9)
    return result
