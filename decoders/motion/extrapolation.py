"""What follows a key picture when nothing more arrives: its motion carried on, as the decoder sees it."""

from functools import cached_property

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import (
    DIS_DISSOLVING,
    Flow,
    dense_flow,
    gray,
    pixel_grid,
    trust,
    warp,
)


class Extrapolator:
    """Moves a key picture on as it moved since the one before; where that is not certain, it stays."""

    def __init__(
        self, before: Picture, last: Picture, drawn: Picture, estimator: int = DIS_DISSOLVING
    ) -> None:
        """Two key pictures in a row (RGB uint8, equal shapes), and what is `drawn` of the last one; nothing is
        computed before it is needed."""
        self._before, self._last, self._drawn, self._estimator = before, last, drawn, estimator

    @cached_property
    def _back(self) -> Flow:
        """Motion from the last key picture to the one before, as far as it can be trusted."""
        before, last = gray(self._before), gray(self._last)
        back = dense_flow(last, before, self._estimator)
        there = dense_flow(before, last, self._estimator)
        return np.asarray(back * trust(back, there)[..., None], np.float32)

    def picture(self, time: float) -> Picture:
        """The picture `time` after the last one, in units of the time between the two."""
        grid = pixel_grid(*self._last.shape[:2])
        return warp(self._drawn, grid + np.float32(time) * self._back, cv2.INTER_CUBIC)
