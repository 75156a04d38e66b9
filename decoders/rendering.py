"""The rendering: the key pictures on both sides moved to a frame's time, with maps of how far to trust them.

Motion is the decoder's own estimate, linear in time, plus the scaffold's corrections and the camera's path; both are
zero at the key pictures and piecewise linear in time between them. Frames at the ends of a scene hold the one
key picture that there is, moved along the camera's path. Everything here is torch-free:
the encoder renders with the same code to see what its bits are worth.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold import (
    LEFT,
    RIGHT,
    Camera,
    Correction,
    Geometry,
    Interval,
    Place,
    Sample,
)
from gsvc.decoders.camera import camera_field
from gsvc.decoders.limbs import limb_motion, pose_heat
from gsvc.decoders.motion import (
    DIS_BLENDED,
    DIS_DISSOLVING,
    Flow,
    dense_flow,
    gray,
    pixel_grid,
    trust,
    warp,
)

FloatImage = NDArray[np.float32]

_KEPT_FIELDS = 2  # Those of the anchors around a frame: an interval may have 15 anchors.
_FLOOR = 1e-3  # Trust where the two estimates disagree: small, but never a division by zero.


@dataclass(frozen=True)
class Rendering:
    """One frame before refinement.

    `picture`, `left`, `right`: uint8 RGB (H, W, 3), the blend and the key pictures before and after moved to
    this frame; `trust`: float32 (H, W, 2), weight of left and right, 0-1; `labels`: uint8 (H, W);
    `pose`: float32 (H, W) heat map, 0-1; `distance`: frames to the nearest key picture / 16, at most 1;
    `quantizer`: crf of the key pictures / 63.
    """

    picture: Picture
    left: Picture
    right: Picture
    trust: FloatImage
    labels: NDArray[np.uint8]
    pose: FloatImage
    distance: float
    quantizer: float


class IntervalRenderer:
    """Renders the frames between two key pictures."""

    def __init__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        quantizer: float,
        estimator: int = DIS_DISSOLVING,
    ) -> None:
        """`before` is the last sample of the interval before (pose and segmentation at the left key picture)."""
        self._left, self._right = left, right
        self._quantizer = quantizer
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
        """`render(offset).picture` alone: half of the work, since most frames are drawn from one side."""
        if self._blends:
            return self.render(offset).picture
        if self._dissolves:
            return dissolved(self._left, self._right, offset / self._length)
        vectors, side = self._bend_at(offset)
        is_left = self.is_left_nearer(offset)
        if side is None or not side.any():
            return self._moved(offset, vectors, left=is_left)
        left, right = (self._moved(offset, vectors, left=one) for one in (True, False))
        return _blend(left, right, np.clip(np.float32(is_left) + side, 0, 1))

    def _moved(self, offset: int, vectors: Flow | None, *, left: bool) -> Picture:
        motion = self._towards(offset, left=left)
        if vectors is not None:
            motion = motion + vectors
        return warp(self._left if left else self._right, self._grid + motion, cv2.INTER_CUBIC)

    def render(self, offset: int) -> Rendering:
        """Render the frame `offset` frames after the left key picture, 0 < offset < length."""
        time = offset / self._length
        to_left, to_right = self.motion_at(offset)
        _, side = self._bend_at(offset)
        from_left, from_right = self._grid + to_left, self._grid + to_right
        lookup = cv2.INTER_LINEAR if self._blends else cv2.INTER_CUBIC
        left, right = warp(self._left, from_left, lookup), warp(self._right, from_right, lookup)
        trust_left = (warp(self._trust[0], from_left) + _FLOOR) * (1 - time)
        trust_right = (warp(self._trust[1], from_right) + _FLOOR) * time
        if self._dissolves:
            weight = np.full(trust_left.shape, 1 - time, np.float32)
        elif self._blends:
            weight = np.asarray(trust_left / (trust_left + trust_right), np.float32)
        else:
            # Two pictures laid over each other blur: the nearer one alone is closer to the eye.
            weight = np.full(trust_left.shape, self.is_left_nearer(offset), np.float32)
        if side is not None:
            weight = np.clip(weight + side, 0, 1)
        return Rendering(
            picture=_blend(left, right, weight),
            left=left,
            right=right,
            trust=np.dstack([trust_left, trust_right]),
            labels=self._labels_at(offset, to_right),
            pose=pose_heat(self._people_near(offset), self._geometry),
            distance=min(1.0, min(offset, self._length - offset) / 16),
            quantizer=self._quantizer,
        )

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
        if self._dissolves:
            return np.zeros_like(self._grid)
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
        if self._dissolves:
            return None, None
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

    def _labels_at(self, offset: int, to_right: Flow) -> NDArray[np.uint8]:
        """The nearest sample's segmentation, carried to this frame by the motion."""
        height, width = self._left.shape[:2]
        known = [s for s in self._samples if s.labels is not None]
        if not known:
            return np.zeros((height, width), np.uint8)
        sample = min(known, key=lambda s: abs(s.offset - offset))
        assert sample.labels is not None
        step = (sample.offset - offset) / (self._length - offset)
        positions = (self._grid + step * to_right) / self._geometry.cell - 0.5
        moved = warp(sample.labels, positions.astype(np.float32), cv2.INTER_NEAREST)
        return np.asarray(moved, np.uint8)

    def _people_near(self, offset: int) -> Sample | None:
        known = [s for s in self._samples if s.people]
        return min(known, key=lambda s: abs(s.offset - offset), default=None)


def still_rendering(picture: Picture, sample: Sample | None, quantizer: float) -> Rendering:
    """A key picture as its own rendering: both sides are the picture, fully trusted."""
    height, width = picture.shape[:2]
    geometry = Geometry(width, height)
    labels = np.zeros((height, width), np.uint8)
    if sample is not None and sample.labels is not None:
        labels = enlarge_labels(sample.labels, geometry)
    return Rendering(
        picture=picture,
        left=picture,
        right=picture,
        trust=np.full((height, width, 2), 0.5, np.float32),
        labels=labels,
        pose=pose_heat(sample, geometry),
        distance=0.0,
        quantizer=quantizer,
    )


def held_rendering(picture: Picture, interval: Interval, time: int, quantizer: float) -> Rendering:
    """A frame that holds the key picture, `time` frames from it (see `camera_nodes`): moved with the camera."""
    moved = held_picture(picture, interval.camera, interval.place, interval.length, time)
    still = still_rendering(moved, None, quantizer)
    return replace(still, distance=min(1.0, time / 16))


def dissolved(left: Picture, right: Picture, time: float) -> Picture:
    """Between two key pictures that fade into each other; `time`: 0 at the left one, 1 at the right one."""
    return np.asarray(cv2.addWeighted(left, 1 - time, right, time, 0), np.uint8)


def held_picture(
    picture: Picture, camera: Camera | None, place: Place, length: int, time: int
) -> Picture:
    """The picture (RGB or luma) of `held_rendering`."""
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
