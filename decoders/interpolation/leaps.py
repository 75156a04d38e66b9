"""Small things that move farther than optical flow follows: a ball in flight.

From coarse to fine, flow finds what is still visible when the picture is small. What is smaller
than its own step is lost: drawn from both pictures, it is in two places and pale in each. Such a
thing stands out from its surroundings in both pictures, and the flow explains it in neither.
`find_leaps` pairs those that look alike. All lengths are in cells of the motion's grid.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]
"""Cells, (n, 2), x and y. Some may be outside the grid."""

_STANDS_OUT = 24.0
"""Levels of 0-255 by which a thing differs from the mean around it, and a lost place from where the
flow leads."""
_AROUND = 0.1
"""Half the side of these surroundings, in proportion to the shorter side of the grid."""
_LEAST, _MOST = 4, 0.01
"""Cells of a thing; the most in proportion to the grid."""
_LOST = 0.4
"""Share of a thing that the flow must have lost."""
_MANY = 64
"""Things beyond which a picture is in pieces, and none of them is told from another."""
_NEAR, _FAR = 2.0, 0.25
"""Cells that a leap is longer than; what it is shorter than, in proportion to the shorter side."""
_UNLIKE = 1.0
"""Things are not the same if the logarithms of contrast and of area, and half the way as part of
the farthest, differ by more in all."""
_EXPLAINED = 0.5
"""Part of a thing's contrast by which it may differ from what it comes to, on average."""


_HALF = np.float32(0.51)
"""Vectors are rounded so; from half a cell exactly, decoders would go both ways."""


class Leap(NamedTuple):
    """A thing that is seen in both pictures."""

    left: Places
    """Where it and its edge are in the left picture."""
    right: Places
    """The same in the right picture."""
    vector: NDArray[np.float32]
    """Motion from the left picture to the right one: float32 (2,), x and y in cells."""


class _Things(NamedTuple):
    """Things that stand out in one picture and are lost; later arrays have one row a thing."""

    labels: NDArray[np.int32]
    """Which number has each cell of the grid."""
    numbers: NDArray[np.intp]
    centres: NDArray[np.float64]
    areas: NDArray[np.float64]
    contrasts: NDArray[np.float64]

    def places(self, thing: int) -> Places:
        """The cells of a thing."""
        return np.argwhere(self.labels == self.numbers[thing])[:, ::-1]

    def whole(self, thing: int) -> Places:
        """The cells of a thing and those next to them, which its edge is in."""
        mask = np.asarray(self.labels == self.numbers[thing], np.uint8)
        return np.argwhere(cv2.dilate(mask, np.ones((3, 3), np.uint8)))[:, ::-1]


def find_leaps(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    missed_left: NDArray[np.float32],
    missed_right: NDArray[np.float32],
) -> list[Leap]:
    """The leaps between two pictures, luma of 0-255 on the grid, float32 (h, w).

    `missed_left`: by how much the left picture differs from where the flow leads, same shape, and
    `missed_right` the right one.
    """
    one = _things(left, missed_left > _STANDS_OUT)
    other = _things(right, missed_right > _STANDS_OUT)
    if not len(one.numbers) or not len(other.numbers):
        return []
    ways = other.centres[None] - one.centres[:, None]
    unlike = _unlikeness(one, other, np.hypot(ways[..., 0], ways[..., 1]), min(left.shape))
    best, back = unlike.argmin(axis=1), unlike.argmin(axis=0)
    found = []
    for n, m in enumerate(best.tolist()):
        places, vector = one.places(n), ways[n, m].astype(np.float32)
        if back[m] != n or unlike[n, m] >= _UNLIKE:
            continue
        there = inside(places, vector, left.shape)
        if len(there) == len(places):
            apart = left[places[:, 1], places[:, 0]] - right[there[:, 1], there[:, 0]]
            if float(np.abs(apart).mean()) < _EXPLAINED * abs(one.contrasts[n]):
                found.append(Leap(one.whole(n), other.whole(m), vector))
    return found


def inside(places: Places, vector: NDArray[np.float32], shape: tuple[int, int]) -> Places:
    """The places moved by a vector, in whole cells, as far as they are within a grid of `shape`."""
    moved = places + np.floor(vector + _HALF).astype(np.intp)
    within = (moved >= 0) & (moved < shape[::-1])
    return np.asarray(moved[within.all(axis=1)], np.intp)


def _things(picture: NDArray[np.float32], lost: NDArray[np.bool_]) -> _Things:
    side = 2 * round(_AROUND * min(picture.shape)) + 1
    around = cv2.blur(picture, (side, side), borderType=cv2.BORDER_REPLICATE)
    out = picture - around
    masks = (np.asarray(sign * out > _STANDS_OUT, np.uint8) for sign in (1, -1))
    (count, bright), (_, dark) = (cv2.connectedComponents(one, connectivity=4) for one in masks)
    labels = np.asarray(bright + dark + (count - 1) * (dark > 0), np.int32)
    y, x = np.indices(labels.shape)
    each = np.ones(labels.shape), lost, x, y, out
    areas, gone, *sums = (np.bincount(labels.ravel(), one.ravel()) for one in each)
    fits = (areas >= _LEAST) & (areas <= _MOST * labels.size) & (gone >= _LOST * areas)
    numbers = np.flatnonzero(fits[1:]) + 1
    if len(numbers) > _MANY:
        numbers = numbers[:0]
    across, down, contrasts = (one[numbers] / areas[numbers] for one in sums)
    own = areas[numbers].astype(np.float64)
    return _Things(labels, numbers, np.stack([across, down], 1), own, contrasts)


def _unlikeness(
    one: _Things, other: _Things, ways: NDArray[np.float64], side: int
) -> NDArray[np.float64]:
    """How unlike each of `one` is to each of `other`, (n, m); infinite where they cannot be one."""
    contrast = one.contrasts[:, None] / other.contrasts[None]
    area = one.areas[:, None] / other.areas[None]
    parts = ways / (_FAR * side)
    unlike = np.abs(np.log(np.abs(contrast))) + np.abs(np.log(area)) + parts / 2
    possible = (contrast > 0) & (parts < 1) & (ways > _NEAR)
    return np.asarray(np.where(possible, unlike, np.inf), np.float64)
