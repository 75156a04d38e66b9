"""Frames after the last coded picture that arrived: the motion that led to it is continued."""

from functools import cached_property

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import Flow, dense_flow, gray, pixel_grid, trust, warp


class Extrapolator:
    """Continues the motion from one coded picture to the next, as far as it can be trusted."""

    def __init__(self, before: Picture, last: Picture, drawn: Picture) -> None:
        """Two successive coded pictures, RGB uint8 (H, W, 3).

        `drawn` is moved in place of `last`, from which motion is estimated.
        """
        self._before, self._last, self._drawn = before, last, drawn

    @cached_property
    def _back(self) -> Flow:
        """Motion from the last picture to the one before, scaled by trust."""
        before, last = gray(self._before), gray(self._last)
        back = dense_flow(last, before)
        there = dense_flow(before, last)
        return np.asarray(back * trust(back, there)[..., None], np.float32)

    def picture(self, time: float) -> Picture:
        """The picture `time` after the last one; 1 is the time between the two."""
        grid = pixel_grid(*self._last.shape[:2])
        return warp(self._drawn, grid + np.float32(time) * self._back, cv2.INTER_CUBIC)
