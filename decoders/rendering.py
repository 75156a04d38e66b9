"""Rendering: frames drawn by moving the nearer coded picture to a frame's time.

Motion is the decoder's own estimate, linear in time, plus the scaffold's (see
`gsvc.decoders.motion.sources`). Frames at the ends of a scene hold its first or last coded picture,
moved with the camera. The encoder renders with this code to measure the distortion that its bits
save, so it runs without torch.
"""

from dataclasses import replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.bend import Bend
from gsvc.decoders.motion.camera import camera_field
from gsvc.decoders.motion.estimation import (
    DIS_BLENDED,
    DIS_DISSOLVING,
    Flow,
    dense_flow,
    gray,
    pixel_grid,
    trust,
    warp,
)
from gsvc.decoders.motion.sources import SOURCES, total_bend

FloatImage = NDArray[np.float32]

_FLOOR = 1e-3  # added to trust, so that weights never divide by zero


class IntervalRenderer:
    """Renders the frames between two coded pictures."""

    def __init__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        estimator: int = DIS_DISSOLVING,
        drawn: tuple[Picture, Picture] | None = None,
    ) -> None:
        """Motion is estimated between `left` and `right`, RGB uint8 (H, W, 3).

        `drawn`: pictures to move in their place; `before`: the sample on the left picture;
        `estimator`: the header's `motion_estimator`.
        """
        self._left, self._right = left, right
        self._drawn = drawn or (left, right)
        self._interval, self._length = interval, interval.length
        self._geometry = Geometry(left.shape[1], left.shape[0])
        self._grid = pixel_grid(*left.shape[:2])
        self._estimator = estimator
        self._blends = estimator == DIS_BLENDED
        self.set_samples(before, interval.samples)

    def set_samples(self, before: Sample | None, samples: tuple[Sample, ...]) -> None:
        """Change the samples; all else, the motion estimate too, is kept."""
        self._interval = replace(self._interval, samples=samples)
        self._sources = [make(self._interval, before, self._geometry) for make in SOURCES]

    @cached_property
    def _backward(self) -> Flow:
        """Motion from the right picture to the left one."""
        return dense_flow(gray(self._right), gray(self._left), self._estimator)

    @cached_property
    def _forward(self) -> Flow:
        """Motion from the left picture to the right one."""
        return dense_flow(gray(self._left), gray(self._right), self._estimator)

    @cached_property
    def _trust(self) -> tuple[FloatImage, FloatImage]:
        """How well the two estimates agree, at the pixels of the left and of the right picture."""
        return trust(self._forward, self._backward), trust(self._backward, self._forward)

    def picture(self, offset: int) -> Picture:
        """The frame `offset` frames after the left picture: RGB uint8 (H, W, 3).

        0 < `offset` < length of the interval.
        """
        if self._interval.dissolves:
            return dissolved(*self._drawn, offset / self._length)
        bend = total_bend(self._sources, offset)
        side = None if bend is None else bend.side
        is_left = self.is_left_nearer(offset)
        if not self._blends and (side is None or not side.any()):
            return self._moved(offset, bend, left=is_left)
        left, right = (self._moved(offset, bend, left=one) for one in (True, False))
        if self._blends:
            weight = self._trusted(offset)
        else:
            # A blend of two pictures is blurred: the nearer one alone looks better.
            weight = np.full(left.shape[:2], is_left, np.float32)
        weight = weight if side is None else np.clip(weight + side, 0, 1)
        return np.asarray(cv2.blendLinear(left, right, weight, 1 - weight), np.uint8)

    def _moved(self, offset: int, bend: Bend | None, *, left: bool) -> Picture:
        towards = self._towards(offset, left=left)
        if bend is not None:
            towards = towards + bend.vectors
        lookup = cv2.INTER_LINEAR if self._blends else cv2.INTER_CUBIC
        return warp(self._drawn[0 if left else 1], self._grid + towards, lookup)

    def _trusted(self, offset: int) -> FloatImage:
        """The weight of the left picture in a blend: by time, and by how well motion agrees."""
        time = offset / self._length
        to_left, to_right = self.motion_at(offset)
        left = (warp(self._trust[0], self._grid + to_left) + _FLOOR) * (1 - time)
        right = (warp(self._trust[1], self._grid + to_right) + _FLOOR) * time
        return np.asarray(left / (left + right), np.float32)

    def confidence(self, offset: int) -> FloatImage:
        """How far motion there and back agrees at a frame's pixels: float32 (H, W), 0 to 1."""
        nearer = 0 if self.is_left_nearer(offset) else 1
        return warp(self._trust[nearer], self._grid + self.motion_at(offset)[nearer])

    def is_left_nearer(self, offset: int) -> bool:
        """Whether a frame is drawn from the left picture where the scaffold gives no side."""
        return 2 * offset <= self._length

    def motion_at(self, offset: int) -> tuple[Flow, Flow]:
        """Motion at a frame towards the left and the right picture: float32 (H, W, 2) in pixels."""
        to_left, to_right = self._towards(offset, left=True), self._towards(offset, left=False)
        bend = total_bend(self._sources, offset)
        if bend is None:
            return to_left, to_right
        return to_left + bend.vectors, to_right + bend.vectors

    def _towards(self, offset: int, *, left: bool) -> Flow:
        """The decoder's own estimate at a frame towards one picture, linear in time."""
        if left:
            return np.float32(offset / self._length) * self._backward
        return np.float32(1 - offset / self._length) * self._forward


def dissolved(left: Picture, right: Picture, time: float) -> Picture:
    """A cross-fade of two pictures; `time`: 0 at the left one, 1 at the right one."""
    return np.asarray(cv2.addWeighted(left, 1 - time, right, time, 0), np.uint8)


def held_picture(picture: Picture, interval: Interval, time: int) -> Picture:
    """A frame `time` frames from the coded picture that it holds, moved with the camera.

    `picture` is RGB or luma; the frame has its shape.
    """
    camera = interval[CAMERA]
    if camera is None:
        return picture
    height, width = picture.shape[:2]
    path = camera_field(camera, interval.place, interval.length, time, Geometry(width, height))
    if path is None:
        return picture
    return warp(picture, pixel_grid(height, width) + path, cv2.INTER_CUBIC)
