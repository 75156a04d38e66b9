"""What the scaffold adds to the estimated motion: blocks, labels, limbs and the camera's path.

Each layer that moves pixels is part of a `MotionSource`; the renderer sums those in `SOURCES`.
Motion sent at anchors, the samples that move pixels, is zero at the keyframes and linear in time
between anchors. The camera's path is affine in space and linear in time.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.layers.camera import CAMERA, Camera, camera_unit
from gsvc.codec.bitstream.layers.flow import FLOW, LEFT, RIGHT, Correction
from gsvc.codec.bitstream.layers.pose import LIMBS, POSE, Person, pose_unit
from gsvc.codec.bitstream.layers.segmentation import SEGMENTATION
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Sample
from gsvc.decoders.interpolation.face_motion import FaceMotion
from gsvc.decoders.interpolation.optical_flow import (
    Bend,
    FloatImage,
    Flow,
    MotionSource,
    between_nodes,
)

_KEPT_FIELDS = 2  # of the anchors around a frame: an interval may have 15


class AnchoredMotion:
    """The motion of an interval's samples; see `MotionSource`."""

    def __init__(self, interval: Interval, before: Sample | None, geometry: Geometry) -> None:
        self._geometry, self._length = geometry, interval.length
        self._samples = [s for s in (before, *interval.samples) if s is not None]
        self._anchors = [
            s for s in interval.samples if _moves(s) and 0 < s.offset < interval.length
        ]
        self._fields: dict[int, tuple[Flow, FloatImage]] = {}

    def bend(self, offset: int) -> Bend | None:
        """The dense motion of the anchors around `offset`, interpolated."""
        after = next((s for s in self._anchors if s.offset >= offset), None)
        before = next((s for s in reversed(self._anchors) if s.offset < offset), None)
        if after is None and before is None:
            return None
        start = before.offset if before else 0
        end = after.offset if after else self._length
        share = (offset - start) / (end - start)
        shape = self._geometry.height, self._geometry.width
        vectors, side = np.zeros((*shape, 2), np.float32), np.zeros(shape, np.float32)
        for anchor, weight in ((before, 1 - share), (after, share)):
            if anchor is not None and weight > 0:
                field, field_side = self._dense(anchor)
                vectors += np.float32(weight) * field
                side += np.float32(weight) * field_side
        return Bend(vectors, side)

    def _dense(self, anchor: Sample) -> tuple[Flow, FloatImage]:
        if anchor.offset not in self._fields:
            if len(self._fields) == _KEPT_FIELDS:
                del self._fields[next(iter(self._fields))]
            field, side = dense_correction(anchor, self._geometry)
            field = field + _limb_motion(anchor, self._samples, self._length, self._geometry)
            self._fields[anchor.offset] = field, side
        return self._fields[anchor.offset]


def _moves(sample: Sample) -> bool:
    segmentation = sample[SEGMENTATION]
    return (
        sample[FLOW] is not None
        or (segmentation is not None and bool(segmentation.vectors.any()))
        or any(person.moves_picture for person in sample[POSE] or ())
    )


def _enlarge_labels(labels: NDArray[np.uint8], geometry: Geometry) -> NDArray[np.uint8]:
    """Labels at display size, uint8 (H, W)."""
    cell = geometry.cell
    return labels.repeat(cell, 0).repeat(cell, 1)[: geometry.height, : geometry.width]


def dense_correction(sample: Sample, geometry: Geometry) -> tuple[Flow, FloatImage]:
    """A sample's corrections at every pixel: vectors (H, W, 2) and sides (H, W), as in `Bend`.

    Block values are interpolated between block centres within a label, so that motion edges follow
    the segmentation. Each label's own motion is added inside the label.
    """
    field = np.zeros((geometry.height, geometry.width, 3), np.float32)
    segmentation, correction = sample[SEGMENTATION], sample[FLOW]
    labels = None if segmentation is None else _enlarge_labels(segmentation.labels, geometry)
    if correction is not None:
        field += _interpolate_blocks(correction, labels, geometry)
    if segmentation is not None:
        field[..., :2] += segmentation.vectors.astype(np.float32)[labels]
    return field[..., :2] * np.float32(geometry.motion_unit), field[..., 2]


def _interpolate_blocks(
    correction: Correction, labels: NDArray[np.uint8] | None, geometry: Geometry
) -> FloatImage:
    sides = (correction.sides == LEFT).astype(np.float32) - (correction.sides == RIGHT)
    blocks = np.dstack([correction.vectors.astype(np.float32), sides])
    smooth = _enlarge(blocks, correction.block_log2, geometry)
    if labels is None or not labels.any():
        return smooth
    # Normalised convolution per label: a block's weight is the label's share of its area.
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


_THICKNESS = 2.0  # of a limb, in cells


def _limb_motion(
    anchor: Sample, samples: Sequence[Sample], length: int, geometry: Geometry
) -> NDArray[np.float32]:
    """Correction of motion at `anchor` from pose: float32 (H, W, 2) in pixels.

    It is the vector by which a key point, visible at the anchor and at both coded pictures,
    deviates from motion linear in time. It is interpolated along limbs and falls to 0 beside them.
    """
    small = np.zeros((*geometry.label_shape, 2), np.float32)
    starts = next((s for s in samples if s.offset <= 0), None)
    ends = next((s for s in samples if s.offset == length), None)
    for person in anchor[POSE] or () if starts and ends else ():
        assert starts is not None and ends is not None
        start, end = _find(starts, person), _find(ends, person)
        if person.moves_picture and start is not None and end is not None:
            small += _one_person(person, start, end, anchor.offset / length, geometry)
    return _enlarge(small, 0, geometry)


def _one_person(
    person: Person, start: Person, end: Person, time: float, geometry: Geometry
) -> NDArray[np.float32]:
    straight = (1 - time) * start.points + time * end.points
    # Motion points from the frame to the coded pictures, hence the sign.
    bend = (straight - person.points) * pose_unit(geometry)
    seen = person.visible & start.visible & end.visible
    rows, columns = geometry.label_shape
    weighted = np.zeros((rows, columns, 2), np.float32)
    weight = np.zeros((rows, columns), np.float32)
    x, y = np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
    for a, b in LIMBS:
        if not (seen[a] and seen[b]):
            continue
        (ax, ay), (bx, by) = person.points[a] / 4, person.points[b] / 4
        span = max((bx - ax) ** 2 + (by - ay) ** 2, 1e-6)
        along = np.clip(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / span, 0, 1)
        distance2 = (x - ax - along * (bx - ax)) ** 2 + (y - ay - along * (by - ay)) ** 2
        near = np.exp(-distance2 / (2 * _THICKNESS**2 / 4)).astype(np.float32)
        weighted += near[..., None] * (
            (1 - along)[..., None] * bend[a] + along[..., None] * bend[b]
        )
        weight += near
    return np.asarray(weighted / np.maximum(weight, 1)[..., None], np.float32)


def _find(sample: Sample, person: Person) -> Person | None:
    return next((p for p in sample[POSE] or () if p.identity == person.identity), None)


class CameraMotion:
    """The camera's path over an interval; see `MotionSource`."""

    def __init__(self, interval: Interval, _before: Sample | None, geometry: Geometry) -> None:
        self._camera, self._geometry = interval[CAMERA], geometry
        self._place, self._length = interval.place, interval.length

    def bend(self, offset: int) -> Bend | None:
        """The camera's displacement at a frame."""
        if self._camera is None:
            return None
        path = camera_field(self._camera, self._place, self._length, offset, self._geometry)
        return None if path is None else Bend(path)


def camera_field(
    camera: Camera, place: Place, length: int, time: int, geometry: Geometry
) -> Flow | None:
    """The camera's displacement at every pixel of a frame: float32 (H, W, 2) in pixels.

    `time` is as in `camera_nodes`, `length` the frames of the interval. None: no displacement.
    """
    corners = corners_at(camera, place, length, [time])[0]
    if not corners.any():
        return None
    return _spread(corners * camera_unit(geometry), geometry.height, geometry.width)


def _spread(corners: NDArray[np.floating], height: int, width: int) -> Flow:
    """The affine field with `corners`, (3, 2), at the top left, top right and bottom left pixel."""
    start, right, down = corners.astype(np.float32)
    across = start + np.linspace(0, 1, width, dtype=np.float32)[:, None] * (right - start)
    along = np.linspace(0, 1, height, dtype=np.float32)[:, None] * (down - start)
    field = np.empty((height, width, 2), np.float32)
    for axis in (0, 1):  # one after the other: broadcasting an axis of 2 is slow
        np.add(across[None, :, axis], along[:, None, axis], out=field[..., axis])
    return field


def corners_at(
    camera: Camera, place: Place, length: int, times: Sequence[int]
) -> NDArray[np.float64]:
    """The path at `times`, interpolated between its nodes: (times, 3, 2) in camera units."""
    path = between_nodes(camera.corners.reshape(-1, 6), camera.step_log2, place, length, times)
    return path.reshape(-1, 3, 2)


SOURCES: tuple[Callable[[Interval, Sample | None, Geometry], MotionSource], ...] = (
    AnchoredMotion,
    CameraMotion,
    FaceMotion,
)
"""Made from an interval, the sample on the coded picture before it, and the grids."""
HELD_SOURCES = CameraMotion, FaceMotion
"""Those that also move frames that hold a coded picture."""


def total_bend(sources: Sequence[MotionSource], offset: int) -> Bend | None:
    """The sum of the motion that the sources add in a frame; None where none adds any."""
    bends = [bend for source in sources if (bend := source.bend(offset)) is not None]
    return reduce(add, bends) if bends else None
