"""Where key pictures go: after scene cuts, and wherever motion alone cannot carry the picture."""

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.motion import dense_flow, gray, pixel_grid, warp
from gsvc.encoders.distortion import Texture

_THUMBNAIL = (32, 18)
_CUT = 30.0
"""Mean absolute luma difference of thumbnails, at their best shift, from which a change is a cut."""
_WORK_LINES = 144


class CutDetector:
    """Tells, frame by frame, whether a new scene begins.

    Both structure and histogram must change: a pan changes only the first, a flash mostly the second.
    """

    def __init__(self) -> None:
        self._last: NDArray[np.float32] | None = None
        self._usual = 0.0

    def __call__(self, picture: Picture) -> bool:
        """True when `picture` (RGB uint8) does not continue the one before."""
        small = cv2.resize(gray(picture), _THUMBNAIL, interpolation=cv2.INTER_AREA)
        now = small.astype(np.float32)
        last, self._last = self._last, now
        if last is None:
            return False
        change = float(np.abs(now - last).mean())
        spread = float(np.abs(np.sort(now, axis=None) - np.sort(last, axis=None)).mean())
        is_cut = change > max(12.0, 2.5 * self._usual) and (change > _CUT or spread > 8.0)
        self._usual = 0.0 if is_cut else 0.8 * self._usual + 0.2 * change
        return is_cut


def place_key_pictures(
    frames: Sequence[Picture], *, longest: int, shortest: int, tolerance: float
) -> list[int]:
    """Choose key pictures among `frames`, the first and the last included; returns their indices.

    Intervals are at most `longest` frames; one is halved while it is at least 2 * `shortest` long and the
    middle frame, rendered from the left end by its motion, is off by more than `tolerance` (mean distortion).
    """
    last = len(frames) - 1
    pieces = max(1, -(-last // longest))
    ends = [round(last * k / pieces) for k in range(pieces + 1)]
    small = _Shrunk(frames)
    keys = [0]
    for start, end in pairwise(ends):
        keys += _split(small, start, end, shortest, tolerance)
    return keys if last else [0]


class _Shrunk:
    """Small smoothed luma of the frames, made when needed and kept."""

    def __init__(self, frames: Sequence[Picture]) -> None:
        self._frames = frames
        self._made: dict[int, Picture] = {}

    def __getitem__(self, index: int) -> Picture:
        if index not in self._made:
            luma = gray(self._frames[index])
            height, width = luma.shape
            scale = min(1.0, _WORK_LINES / min(height, width))
            size = max(1, round(width * scale)), max(1, round(height * scale))
            self._made[index] = np.asarray(
                cv2.resize(luma, size, interpolation=cv2.INTER_AREA), np.uint8
            )
        return self._made[index]


def _split(frames: _Shrunk, start: int, end: int, shortest: int, tolerance: float) -> list[int]:
    if end <= start:
        return []
    if end - start < 2 * shortest or _midpoint_error(frames, start, end) <= tolerance:
        return [end]
    middle = (start + end) // 2
    return _split(frames, start, middle, shortest, tolerance) + _split(
        frames, middle, end, shortest, tolerance
    )


def _midpoint_error(frames: _Shrunk, start: int, end: int) -> float:
    a, b, middle = frames[start], frames[end], (start + end) // 2
    time = (middle - start) / (end - start)
    positions = pixel_grid(*a.shape) + np.float32(time) * dense_flow(b, a)
    return float(Texture(frames[middle]).distortion(warp(a, positions, cv2.INTER_CUBIC)).mean())
