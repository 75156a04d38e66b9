"""Motion sent at anchors, the samples that move pixels: of blocks, of labels and of limbs.

It is zero at the coded pictures and linear in time between anchors.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.flow import FLOW, LEFT, RIGHT, Correction
from gsvc.codec.scaffold.layers.pose import POSE
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.bend import Bend
from gsvc.decoders.motion.estimation import Flow
from gsvc.decoders.motion.limbs import limb_motion

FloatImage = NDArray[np.float32]

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
            field = field + limb_motion(anchor, self._samples, self._length, self._geometry)
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
