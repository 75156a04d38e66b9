"""Rendering: frames drawn by moving the two keyframes around them to a frame's time.

Motion is the decoder's own estimate, linear in time, plus the scaffold's (see `scaffold_motion`).
Frames at the ends of a scene hold its first or last keyframe, moved with camera and faces. The
encoder renders with this code to measure what distortion its bits save, so it needs no torch.

`BidirectionalWarp` draws a frame from both keyframes. What both show is a blend by time, so that
nothing switches half-way, and no noise of one picture is shown alone. What one alone shows, or
shows better, comes from that one. A blend of two pictures that differ is a blur: its detail is
raised to the energy that theirs has.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Protocol, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Sample
from gsvc.decoders.interpolation import optical_flow
from gsvc.decoders.interpolation.optical_flow import Bend, FloatImage, Flow, FrameMotion, warp
from gsvc.decoders.interpolation.scaffold_motion import HELD_SOURCES, SOURCES, total_bend

_T = TypeVar("_T", bound=np.generic)

_AGREES = 0.5  # pixels of the motion's grid: a miss at which agreement has fallen to 1/e
_FARTHEST = 2.0  # pixels of the motion's grid: beyond it all misses are alike
_APART, _OTHER = 24.0, 12.0
"""Levels of luma beyond which pictures begin to show different things; further ones to the full."""
_DECISIVE, _LEANING = 95.0, 8.0
"""How much steeper the choice between different things is, and how far it leans to the left: half
and half is a ghost of each, and the middle frame is where it would be."""
_DETAIL = 2.0  # standard deviation, in pixels, of the blur that detail is measured from
_AROUND = 8  # pixels, a side, of the places whose energies are compared
_NOISE = 1.0  # mean square, in levels of 0-255, of detail that is too weak to be raised
_LINES = 32  # lines of a frame that are looked up at once
_RAISED = 1.6  # the most that detail is raised by


class BidirectionalWarp:
    """Two pictures of the same shape, RGB (H, W, 3) or luma (H, W), uint8."""

    def __init__(self, left: Picture, right: Picture, lookup: int = cv2.INTER_CUBIC) -> None:
        """`lookup`: OpenCV's way to sample them."""
        self._left, self._right, self._lookup = left, right, lookup
        height, width = left.shape[:2]
        self._size = width, height
        self._blocks = -(-width // _AROUND), -(-height // _AROUND)
        self._grid = optical_flow.pixel_grid(height, width)
        self._block_grid = optical_flow.pixel_grid(self._blocks[1], self._blocks[0])
        self._energies = tuple(self._energy(_detail(picture)) for picture in (left, right))

    def frame(self, motion: FrameMotion, time: float, bend: Bend | None = None) -> Picture:
        """The frame at `time`, 0 at the left picture and 1 at the right one, of their shape.

        `motion`: at that time; `bend`: what the scaffold adds to it.
        """
        share = _left_share(motion, time, bend)
        frame = _blended(*self._warped(motion, time, bend), share)
        detail = _detail(frame)
        # What detail both pictures have where the frame is drawn from, one value a block.
        left, right = map(warp, self._energies, _looked_up(self._block_grid, motion, time, bend))
        wanted, energy = _blended(left, right, share), self._energy(detail)
        gain = np.clip(cv2.sqrt((wanted + _NOISE) / (energy + _NOISE)), 1, _RAISED) - 1
        luma = detail * cv2.resize(gain, self._size)
        # Levels above and below 0 apart: OpenCV adds bytes to bytes ten times as fast.
        above = np.asarray(cv2.add(luma, 0, dtype=cv2.CV_8U), np.uint8)
        below = np.asarray(cv2.subtract(0, luma, dtype=cv2.CV_8U), np.uint8)
        if frame.ndim == 3:
            above, below = (cv2.merge([one] * 3) for one in (above, below))
        return np.asarray(cv2.subtract(cv2.add(frame, above), below), np.uint8)

    def _warped(
        self, motion: FrameMotion, time: float, bend: Bend | None
    ) -> tuple[Picture, Picture]:
        """Both pictures moved to the frame, some lines at a time: positions stay in the cache."""
        vectors = _resized(motion.vectors, self._size)
        bent = None if bend is None else _resized(bend.vectors, self._size)
        left, right = np.empty_like(self._left), np.empty_like(self._right)
        for top in range(0, self._size[1], _LINES):
            lines = slice(top, top + _LINES)
            grid = self._grid[lines] if bent is None else self._grid[lines] + bent[lines]
            for source, moved, share in ((self._left, left, -time), (self._right, right, 1 - time)):
                positions = np.asarray(cv2.scaleAdd(vectors[lines], share, grid), np.float32)
                moved[lines] = warp(source, positions, self._lookup)
        return left, right

    def _energy(self, detail: FloatImage) -> FloatImage:
        blocks = cv2.resize(detail * detail, self._blocks, interpolation=cv2.INTER_AREA)
        return np.asarray(blocks, np.float32)


def _looked_up(
    grid: Flow, motion: FrameMotion, time: float, bend: Bend | None
) -> tuple[Flow, Flow]:
    """Where the frame's pixels, at `grid`, are in both pictures; `grid` may be coarser."""
    size = grid.shape[1], grid.shape[0]
    vectors = _resized(motion.vectors, size)
    if bend is not None:
        grid = grid + _resized(bend.vectors, size)
    left, right = (cv2.scaleAdd(vectors, share, grid) for share in (-time, 1 - time))
    return np.asarray(left, np.float32), np.asarray(right, np.float32)


def _resized(vectors: Flow, size: tuple[int, int]) -> Flow:
    height, width = vectors.shape[:2]
    if size == (width, height):
        return vectors
    scale = np.array([size[0] / width, size[1] / height], np.float32)
    way = cv2.INTER_AREA if size < (width, height) else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(vectors * scale, size, interpolation=way), np.float32)


def agreement(motion: FrameMotion) -> FloatImage:
    """How far both pictures' motion agrees, on the motion's grid: float32 (h, w), 0 to 1."""
    return np.asarray(cv2.exp(-(motion.left + motion.right) / _AGREES), np.float32)


def _left_share(motion: FrameMotion, time: float, bend: Bend | None) -> FloatImage:
    """Share of the left picture in a frame, on the motion's grid: float32 (h, w), 0 to 1."""
    left, right = (np.minimum(miss, _FARTHEST) for miss in (motion.left, motion.right))
    better = (right - left) / _AGREES + np.float32(np.log((1 - time) / time))
    unlike = np.clip((motion.apart - _APART) / _OTHER, 0, 1)
    better += unlike * (_DECISIVE * better + _LEANING)
    share = np.asarray(1 / (1 + cv2.exp(np.clip(-better, -80, 80))), np.float32)
    if bend is None or bend.side is None:
        return share
    side = cv2.resize(bend.side, (share.shape[1], share.shape[0]), interpolation=cv2.INTER_AREA)
    return np.asarray(np.clip(share + side, 0, 1), np.float32)


def _blended(left: NDArray[_T], right: NDArray[_T], share: FloatImage) -> NDArray[_T]:
    """`share`: of the left one, of any size."""
    weight = cv2.resize(share, (left.shape[1], left.shape[0]))
    return np.asarray(cv2.blendLinear(left, right, weight, 1 - weight), left.dtype)


def _detail(picture: Picture) -> FloatImage:
    """Detail of luma that is finer than a blur: float32 (H, W)."""
    luma = optical_flow.gray(picture)
    blur = cv2.GaussianBlur(luma, (0, 0), _DETAIL)
    return np.asarray(cv2.subtract(luma, blur, dtype=cv2.CV_32F), np.float32)


class Renderer(Protocol):
    """Draws the frames between two keyframes."""

    def picture(self, offset: int) -> Picture:
        """The frame `offset` frames after the left picture, RGB uint8 (H, W, 3)."""

    def confidence(self, offset: int) -> NDArray[np.float32]:
        """How far to trust it at each pixel, float32 (H, W), 0 to 1."""


MakeRenderer = Callable[..., Renderer]
"""Makes one for each interval, of arguments as of `IntervalRenderer`."""


class IntervalRenderer:
    """Renders the frames between two coded pictures."""

    def __init__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        closing: Sample | None,
        drawn: tuple[Picture, Picture] | None = None,
        estimator: int = optical_flow.MOTION_ESTIMATOR,
        *,
        quick: bool = False,
    ) -> None:
        """Motion is estimated between `left` and `right`, RGB uint8 (H, W, 3) or luma (H, W).

        `drawn`: pictures to move in their place; `closing`: the sample on the left picture;
        `estimator`: the stream's, for motion; `quick`: motion and look-ups are rougher, and the
        motion of every frame is kept.
        """
        self._left, self._right, self._estimator, self._quick = left, right, estimator, quick
        self._drawn = drawn or (left, right)
        self._interval, self._length = interval, interval.length
        self._size = left.shape[1], left.shape[0]
        self._geometry = Geometry(*self._size)
        self._motions: dict[int, FrameMotion] = {}
        self.set_interval(closing, interval)

    def set_samples(self, closing: Sample | None, samples: tuple[Sample, ...]) -> None:
        """Change the samples; all else, the motion estimate too, is kept."""
        self.set_interval(closing, replace(self._interval, samples=samples))

    def set_interval(self, closing: Sample | None, interval: Interval) -> None:
        """Change the scaffold; the motion estimate is kept."""
        self._interval = interval
        self._sources = [make(self._interval, closing, self._geometry) for make in SOURCES]

    @cached_property
    def _motion(self) -> optical_flow.MotionBetween:
        preset = cv2.DISOPTICAL_FLOW_PRESET_FAST if self._quick else optical_flow.PRESET
        return optical_flow.MotionBetween(
            optical_flow.gray(self._left), optical_flow.gray(self._right), preset, self._estimator
        )

    @cached_property
    def _pair(self) -> BidirectionalWarp:
        return BidirectionalWarp(*self._drawn, cv2.INTER_LINEAR if self._quick else cv2.INTER_CUBIC)

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
        still, time = np.zeros((*self._size[::-1], 2), np.float32), offset / self._length
        return _looked_up(still, self._motion_of(offset), time, self._bend(offset))

    def _motion_of(self, offset: int) -> FrameMotion:
        if offset not in self._motions:
            if not self._quick:
                self._motions.clear()
            self._motions[offset] = self._motion.at(offset / self._length)
        return self._motions[offset]

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
    return warp(picture, optical_flow.pixel_grid(height, width) + bend.vectors, cv2.INTER_CUBIC)
