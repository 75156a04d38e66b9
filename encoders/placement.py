"""Where the key pictures of a group may lie."""

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.encoders.distortion import FloatMap
from gsvc.encoders.plan import planned_intervals

_SHORTEST = 2
"""Frames from one key picture to the next, at least."""


class Placement:
    """Places key pictures in the middle of cells of a group.

    A group that goes on from another begins with a key picture; one that goes on in another ends
    with one more, which is the other's.
    """

    def __init__(
        self, thumbnails: Sequence[FloatMap], *, begins: bool, open_ended: bool, longest: int
    ) -> None:
        """`thumbnails`: luma of every frame at a quarter of the size; `begins`: a scene begins with
        the group; `open_ended`: the last frame is the next group's; `longest`: most frames from one
        key picture to the next."""
        changes = _changes(thumbnails)
        self.different = 1 + int((changes > 0).sum())
        """Frames that do not repeat the one before."""
        self._progress = _progress(changes)
        self._frames, self._last = len(thumbnails), len(thumbnails) - 1
        self._begins, self._open_ended, self._longest = begins, open_ended, longest

    def even(self, count: int) -> tuple[int, ...]:
        """Indices of `count` key pictures at even distances."""
        return self._placed(self._last * self._shares(count))

    def uneven(self, count: int) -> tuple[int, ...]:
        """The same, closer where more changes from frame to frame."""
        keys = self._placed(np.interp(self._shares(count), self._progress, np.arange(self._frames)))
        gaps = [planned.length for planned in planned_intervals(keys, self._last)]
        return keys if max(gaps, default=0) <= self._longest else self.even(count)

    def _shares(self, count: int) -> NDArray[np.float64]:
        """Where in the group its key pictures lie, 0 to 1."""
        fewest = max(1, -(-self._last // self._longest))
        count = max(fewest, min(count, self._frames // _SHORTEST))
        lead = 0.5 if self._begins else 0.0
        cells = lead + count - (0.0 if self._open_ended else 0.5)
        return np.asarray((np.arange(count) + lead) / max(cells, 0.5), np.float64)

    def _placed(self, positions: NDArray[np.float64]) -> tuple[int, ...]:
        keys = {round(position) for position in positions.tolist()}
        return tuple(sorted(keys | ({self._last} if self._open_ended else set())))


def _changes(thumbnails: Sequence[FloatMap]) -> NDArray[np.float64]:
    """Mean difference of luma from each frame to the next, 0 where it repeats."""
    apart = (cv2.absdiff(old, new) for old, new in pairwise(thumbnails))
    return np.array([float(d.mean()) if d.max() > 1 else 0.0 for d in apart])


def _progress(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of a group lies before each frame, 0 to 1: half in time, half in change ("Uneven key
    pictures" in docs/logs/search.md)."""
    time = np.linspace(0, 1, len(changes) + 1)
    changed = np.concatenate([[0.0], np.cumsum(changes)])
    return time if changed[-1] == 0 else (time + changed / changed[-1]) / 2
