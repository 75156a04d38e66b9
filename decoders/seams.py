"""Windows that follow one another, joined without a step in light or colour.

Two windows share one frame, mostly a key picture, and each restores it in its own way. Detail
switches there at once: two details laid over each other would be ghosts. What is coarse switches
slowly: the difference that the two have in the shared frame is added to those behind it, less and
less. That costs nothing to compute twice, and no frame waits for it.
"""

from collections.abc import Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

FADE = 8
"""Frames behind the shared one in which the difference goes."""
_CELLS = 16
"""Cells along a frame's longer side: what is smaller counts as detail."""


def joined(shown: Picture, window: Sequence[Picture]) -> Iterator[Picture]:
    """The frames of a window that begins with a frame which was shown before as `shown`.

    All RGB uint8 (H, W, 3). A constant difference goes in equal parts, one of `FADE` a frame; from
    the frame `FADE` on nothing is changed, nor anywhere if the shared frame is equal in both.
    """
    step = _coarse(shown.astype(np.float32) - window[0])
    if not step.any():
        yield from window
        return
    for at, picture in enumerate(window):
        yield picture if at >= FADE else _shifted(picture, step * np.float32(1 - at / FADE))


def _shifted(picture: Picture, difference: NDArray[np.float32]) -> Picture:
    levels: Picture = np.rint(picture + difference).clip(0, 255).astype(np.uint8)
    return levels


def _coarse(difference: NDArray[np.float32]) -> NDArray[np.float32]:
    """What of a difference, float32 (H, W, 3), is coarser than a cell."""
    height, width = difference.shape[:2]
    cell = max(height, width) / _CELLS
    grid = max(1, round(width / cell)), max(1, round(height / cell))
    means = cv2.resize(difference, grid, interpolation=cv2.INTER_AREA)
    coarse: NDArray[np.float32] = cv2.resize(means, (width, height), interpolation=cv2.INTER_LINEAR)
    return coarse
