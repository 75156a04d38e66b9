"""Rendering: frames drawn by moving the two coded pictures around them to a frame's time.

Motion is the decoder's own estimate, linear in time, plus the scaffold's (see
`scaffold_motion`). Frames at the ends of a scene hold its first or last coded picture, moved with
camera and faces. The encoder renders with this code to measure the distortion that its
bits save, so it runs without torch.
"""

from dataclasses import replace
from functools import cached_property
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Sample
from gsvc.decoders.interpolation.bidirectional_warp import BidirectionalWarp, agreement, towards
from gsvc.decoders.interpolation.optical_flow import (
    Bend,
    FloatImage,
    Flow,
    FrameMotion,
    MotionBetween,
    gray,
    pixel_grid,
    warp,
)
from gsvc.decoders.interpolation.scaffold_motion import HELD_SOURCES, SOURCES, total_bend


class Renderer(Protocol):
    """Draws the frames between two keyframes."""

    def picture(self, offset: int) -> Picture:
        """The frame `offset` frames after the left picture, RGB uint8 (H, W, 3)."""
        ...

    def confidence(self, offset: int) -> NDArray[np.float32]:
        """How far to trust it at each pixel, float32 (H, W), 0 to 1."""
        ...


class MakeRenderer(Protocol):
    """What draws the frames of an interval: `IntervalRenderer`, say."""

    def __call__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        drawn: tuple[Picture, Picture],
    ) -> Renderer:
        """See `IntervalRenderer`."""
        ...


class IntervalRenderer:
    """Renders the frames between two coded pictures."""

    def __init__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        drawn: tuple[Picture, Picture] | None = None,
    ) -> None:
        """Motion is estimated between `left` and `right`, RGB uint8 (H, W, 3).

        `drawn`: pictures to move in their place; `before`: the sample on the left picture.
        """
        self._left, self._right = left, right
        self._drawn = drawn or (left, right)
        self._interval, self._length = interval, interval.length
        self._size = left.shape[1], left.shape[0]
        self._geometry = Geometry(*self._size)
        self._last: tuple[int, FrameMotion] | None = None
        self.set_interval(before, interval)

    def set_samples(self, before: Sample | None, samples: tuple[Sample, ...]) -> None:
        """Change the samples; all else, the motion estimate too, is kept."""
        self.set_interval(before, replace(self._interval, samples=samples))

    def set_interval(self, before: Sample | None, interval: Interval) -> None:
        """Change the scaffold; the motion estimate is kept."""
        self._interval = interval
        self._sources = [make(self._interval, before, self._geometry) for make in SOURCES]

    @cached_property
    def _motion(self) -> MotionBetween:
        return MotionBetween(gray(self._left), gray(self._right))

    @cached_property
    def _pair(self) -> BidirectionalWarp:
        return BidirectionalWarp(*self._drawn)

    def picture(self, offset: int) -> Picture:
        """The frame `offset` frames after the left picture: RGB uint8 (H, W, 3).

        0 < `offset` < length of the interval.
        """
        time = offset / self._length
        if self._interval.dissolves:
            return dissolved(*self._drawn, time)
        return self._pair.frame(self._motion_of(offset), time, self._bend(offset))

    def confidence(self, offset: int) -> FloatImage:
        """How far both pictures' motion agrees at a frame's pixels: float32 (H, W), 0 to 1."""
        return np.asarray(cv2.resize(agreement(self._motion_of(offset)), self._size), np.float32)

    def is_left_nearer(self, offset: int) -> bool:
        """Whether the left picture has the larger share of a frame where both show it."""
        return 2 * offset <= self._length

    def motion_at(self, offset: int) -> tuple[Flow, Flow]:
        """Motion at a frame towards the left and the right picture: float32 (H, W, 2) in pixels."""
        time = offset / self._length
        return towards(self._motion_of(offset), time, self._size, self._bend(offset))

    def _motion_of(self, offset: int) -> FrameMotion:
        if self._last is None or self._last[0] != offset:
            self._last = offset, self._motion.at(offset / self._length)
        return self._last[1]

    def _bend(self, offset: int) -> Bend | None:
        return total_bend(self._sources, offset)


def dissolved(left: Picture, right: Picture, time: float) -> Picture:
    """A cross-fade of two pictures; `time`: 0 at the left one, 1 at the right one."""
    return np.asarray(cv2.addWeighted(left, 1 - time, right, time, 0), np.uint8)


def held_picture(picture: Picture, interval: Interval, time: int) -> Picture:
    """A frame `time` frames from the coded picture that it holds, moved with camera and faces.

    `picture` is RGB or luma; the frame has its shape.
    """
    height, width = picture.shape[:2]
    geometry = Geometry(width, height)
    sources = [make(interval, None, geometry) for make in HELD_SOURCES]
    bend = total_bend(sources, time)
    if bend is None:
        return picture
    return warp(picture, pixel_grid(height, width) + bend.vectors, cv2.INTER_CUBIC)
