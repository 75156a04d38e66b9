"""The rendering: the nearer key picture moved to a frame's time.

Motion is the decoder's own estimate, linear in time, plus the scaffold's corrections and the camera's path; both are
zero at the key pictures and piecewise linear in time between them. Frames at the ends of a scene hold the one
key picture that there is, moved along the camera's path. Everything here is torch-free:
the encoder renders with the same code to see what its bits are worth.
"""

from dataclasses import replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import (
    LEFT,
    RIGHT,
    Camera,
    Correction,
    Geometry,
    Interval,
    Place,
    Sample,
)
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
from gsvc.decoders.motion.limbs import limb_motion

FloatImage = NDArray[np.float32]

_KEPT_FIELDS = 2  # Those of the anchors around a frame: an interval may have 15 anchors.
_FLOOR = 1e-3  # Trust where the two estimates disagree: small, but never a division by zero.


class IntervalRenderer:
    """Renders the frames between two key pictures."""

    def __init__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        estimator: int = DIS_DISSOLVING,
        drawn: tuple[Picture, Picture] | None = None,
    ) -> None:
        """Motion is estimated between `left` and `right`; `drawn`, what is moved, is the two themselves if None.

        `before` is the last sample of the interval before (pose and segmentation at the left key picture).
        """
        self._left, self._right = left, right
        self._drawn = drawn or (left, right)
        self._length = interval.length
        self._camera = interval.camera
        self._dissolves = interval.dissolves
        self._geometry = Geometry(left.shape[1], left.shape[0])
        self._grid = pixel_grid(*left.shape[:2])
        self._estimator = estimator
        self._blends = estimator == DIS_BLENDED
        self.set_samples(before, interval.samples)

    def set_samples(self, before: Sample | None, samples: tuple[Sample, ...]) -> None:
        """Take another scaffold for the same key pictures; the motion estimate is kept."""
        self._before = before
        self._samples = samples
        self._fields: dict[int, tuple[Flow, FloatImage]] = {}

    @cached_property
    def _backward(self) -> Flow:
        """Motion from the right key picture to the left one; estimated when a frame first needs it."""
        return dense_flow(gray(self._right), gray(self._left), self._estimator)

    @cached_property
    def _forward(self) -> Flow:
        """Motion from the left key picture to the right one."""
        return dense_flow(gray(self._left), gray(self._right), self._estimator)

    @cached_property
    def _trust(self) -> tuple[FloatImage, FloatImage]:
        """Where the two estimates agree, seen from the left and from the right key picture."""
        return trust(self._forward, self._backward), trust(self._backward, self._forward)

    def picture(self, offset: int) -> Picture:
        """The frame `offset` frames after the left key picture, 0 < offset < length, RGB uint8 (H, W, 3)."""
        if self._dissolves:
            return dissolved(*self._drawn, offset / self._length)
        vectors, side = self._bend_at(offset)
        is_left = self.is_left_nearer(offset)
        if not self._blends and (side is None or not side.any()):
            return self._moved(offset, vectors, left=is_left)
        left, right = (self._moved(offset, vectors, left=one) for one in (True, False))
        if self._blends:
            weight = self._trusted(offset)
        else:
            # Two pictures laid over each other blur: the nearer one alone is closer to the eye.
            weight = np.full(left.shape[:2], is_left, np.float32)
        return _blend(left, right, weight if side is None else np.clip(weight + side, 0, 1))

    def _moved(self, offset: int, vectors: Flow | None, *, left: bool) -> Picture:
        towards = self._towards(offset, left=left)
        if vectors is not None:
            towards = towards + vectors
        lookup = cv2.INTER_LINEAR if self._blends else cv2.INTER_CUBIC
        return warp(self._drawn[0 if left else 1], self._grid + towards, lookup)

    def _trusted(self, offset: int) -> FloatImage:
        """The left picture's weight where both are laid over each other: by time, and by how far motion agrees."""
        time = offset / self._length
        to_left, to_right = self.motion_at(offset)
        left = (warp(self._trust[0], self._grid + to_left) + _FLOOR) * (1 - time)
        right = (warp(self._trust[1], self._grid + to_right) + _FLOOR) * time
        return np.asarray(left / (left + right), np.float32)

    def is_left_nearer(self, offset: int) -> bool:
        """Whether a frame is drawn from the left key picture, where the scaffold does not say otherwise."""
        return 2 * offset <= self._length

    def motion_at(self, offset: int) -> tuple[Flow, Flow]:
        """Motion assumed at a frame towards the left and the right key picture, in pixels."""
        to_left, to_right = self._towards(offset, left=True), self._towards(offset, left=False)
        vectors, _ = self._bend_at(offset)
        if vectors is None:
            return to_left, to_right
        return to_left + vectors, to_right + vectors

    def _towards(self, offset: int, *, left: bool) -> Flow:
        """The decoder's own estimate at a frame towards one key picture: linear in time."""
        if left:
            return np.float32(offset / self._length) * self._backward
        return np.float32(1 - offset / self._length) * self._forward

    def picture_with(self, sample: Sample, correction: Correction) -> Picture:
        """The frame of `sample` as if it had `correction`; for the encoder's trials."""
        kept = self._before, self._samples
        trial = replace(sample, correction=correction)
        others = [s for s in self._samples if s.offset != sample.offset]
        self.set_samples(self._before, tuple(sorted([*others, trial], key=lambda s: s.offset)))
        picture = self.picture(sample.offset)
        self.set_samples(*kept)
        return picture

    def _bend_at(self, offset: int) -> tuple[Flow | None, FloatImage | None]:
        """How motion at `offset` differs from the even one: the corrections and the camera's path, and the side."""
        vectors, side = self._correction_at(offset)
        if self._camera is None:
            return vectors, side
        path = camera_field(self._camera, Place.BETWEEN, self._length, offset, self._geometry)
        if vectors is None or path is None:
            return (path if vectors is None else vectors), side
        return vectors + path, side

    def _correction_at(self, offset: int) -> tuple[Flow | None, FloatImage | None]:
        """Interpolate the anchors' dense fields at `offset`: vectors in pixels, side -1 (right) to 1 (left)."""
        anchors = [s for s in self._samples if _moves(s) and 0 < s.offset < self._length]
        after = next((s for s in anchors if s.offset >= offset), None)
        before = next((s for s in reversed(anchors) if s.offset < offset), None)
        if after is None and before is None:
            return None, None
        start = before.offset if before else 0
        end = after.offset if after else self._length
        share = (offset - start) / (end - start)
        vectors, side = np.zeros_like(self._grid), np.zeros_like(self._grid[..., 0])
        for anchor, weight in ((before, 1 - share), (after, share)):
            if anchor is not None and weight > 0:
                field, field_side = self._dense(anchor)
                vectors += np.float32(weight) * field
                side += np.float32(weight) * field_side
        return vectors, side

    def _dense(self, anchor: Sample) -> tuple[Flow, FloatImage]:
        if anchor.offset not in self._fields:
            if len(self._fields) == _KEPT_FIELDS:
                del self._fields[next(iter(self._fields))]
            field, side = dense_correction(anchor, self._geometry)
            previous = [s for s in (self._before, *self._samples) if s is not None]
            field = field + limb_motion(anchor, previous, self._length, self._geometry)
            self._fields[anchor.offset] = field, side
        return self._fields[anchor.offset]


def dissolved(left: Picture, right: Picture, time: float) -> Picture:
    """Between two key pictures that fade into each other; `time`: 0 at the left one, 1 at the right one."""
    return np.asarray(cv2.addWeighted(left, 1 - time, right, time, 0), np.uint8)


def held_picture(
    picture: Picture, camera: Camera | None, place: Place, length: int, time: int
) -> Picture:
    """A frame that holds a key picture (RGB or luma), `time` frames from it (see `camera_nodes`): moved with the camera."""
    if camera is None:
        return picture
    height, width = picture.shape[:2]
    path = camera_field(camera, place, length, time, Geometry(width, height))
    if path is None:
        return picture
    return warp(picture, pixel_grid(height, width) + path, cv2.INTER_CUBIC)


def enlarge_labels(labels: NDArray[np.uint8], geometry: Geometry) -> NDArray[np.uint8]:
    """Segmentation at display size, uint8 (H, W)."""
    cell = geometry.cell
    return labels.repeat(cell, 0).repeat(cell, 1)[: geometry.height, : geometry.width]


def dense_correction(sample: Sample, geometry: Geometry) -> tuple[Flow, FloatImage]:
    """A sample's corrections at every pixel: vectors in pixels (H, W, 2), side -1 (right) to 1 (left) (H, W).

    Block values are interpolated between block centres, but only within a segment: motion edges follow the
    segmentation. Each label's layer motion is added inside the label.
    """
    field = np.zeros((geometry.height, geometry.width, 3), np.float32)
    labels = None if sample.labels is None else enlarge_labels(sample.labels, geometry)
    if sample.correction is not None:
        field += _interpolate_blocks(sample.correction, labels, geometry)
    if sample.layers is not None and labels is not None:
        field[..., :2] += sample.layers.astype(np.float32)[labels]
    return field[..., :2] * np.float32(geometry.motion_unit), field[..., 2]


def _interpolate_blocks(
    correction: Correction, labels: NDArray[np.uint8] | None, geometry: Geometry
) -> FloatImage:
    sides = (correction.sides == LEFT).astype(np.float32) - (correction.sides == RIGHT)
    blocks = np.dstack([correction.vectors.astype(np.float32), sides])
    smooth = _enlarge(blocks, correction.block_log2, geometry)
    if labels is None or not labels.any():
        return smooth
    # Normalised convolution per label: a block speaks for a label in proportion to the area it covers.
    result = smooth.copy()
    for label in np.unique(labels):
        mask = labels == label
        share = _block_share(mask, correction, geometry)[..., None]
        total = _enlarge(share, correction.block_log2, geometry)
        own = _enlarge(blocks * share, correction.block_log2, geometry)
        inside = mask & (total > 1e-2)
        result[inside] = own[inside] / total[inside][..., None]
    return result


def _block_share(mask: NDArray[np.bool_], correction: Correction, geometry: Geometry) -> FloatImage:
    side = geometry.cell << correction.block_log2
    rows, columns = correction.sides.shape
    padded = np.zeros((rows * side, columns * side), np.float32)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    return np.asarray(padded.reshape(rows, side, columns, side).mean((1, 3)), np.float32)


def _enlarge(blocks: FloatImage, block_log2: int, geometry: Geometry) -> FloatImage:
    rows, columns = blocks.shape[:2]
    side = geometry.cell << block_log2
    large = cv2.resize(blocks, (columns * side, rows * side), interpolation=cv2.INTER_LINEAR)
    return np.asarray(large[: geometry.height, : geometry.width], np.float32)


def _moves(sample: Sample) -> bool:
    return (
        sample.correction is not None
        or (sample.layers is not None and bool(sample.layers.any()))
        or any(person.moves_picture for person in sample.people or ())
    )


def _blend(left: NDArray[np.generic], right: NDArray[np.generic], weight: FloatImage) -> Picture:
    return np.asarray(cv2.blendLinear(left, right, weight, 1 - weight), np.uint8)
