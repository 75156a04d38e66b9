"""Flow: corrections to the decoder's own motion estimate, kept only where they pay for their bits.

At an anchor the encoder knows the true motion towards both key pictures (from the source frames) and the
motion the decoder will assume. A block of the difference is a candidate in two forms: move what is drawn from
the nearer key picture, or draw from the farther one. Each is rendered and the form with the least D + lambda R
wins; see `distortion.py` for D.
"""

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import BOTH, LEFT, MAX_LABEL, RIGHT, Correction, Geometry, Sample
from gsvc.decoders.motion.estimation import Flow, dis_flow, gray
from gsvc.decoders.rendering import IntervalRenderer
from gsvc.encoders.distortion import Reference, block_sums

_LONGEST = 127


def true_motion(frame: Picture, left: Picture, right: Picture) -> tuple[Flow, Flow]:
    """Motion from a source frame to the source frames at both key pictures, in pixels (H, W, 2).

    Half size is enough: it is only looked at through medians of blocks.
    """
    medium = cv2.DISOPTICAL_FLOW_PRESET_MEDIUM
    to_left, to_right = half_size_motion(frame, (left, right), medium)
    return to_left, to_right


def half_size_motion(picture: Picture, others: Sequence[Picture], preset: int) -> list[Flow]:
    """Motion from a picture (RGB or luma) to each of the others in pixels (H, W, 2), found at half size with a preset
    of OpenCV's DIS."""
    height, width = picture.shape[:2]
    half = max(1, width // 2), max(1, height // 2)
    scale = np.array([width / half[0], height / half[1]], np.float32)
    luma, *ends = (
        np.asarray(cv2.resize(gray(p), half, interpolation=cv2.INTER_AREA), np.uint8)
        for p in (picture, *others)
    )
    found = (cv2.resize(dis_flow(luma, end, preset), (width, height)) * scale for end in ends)
    return [np.asarray(motion, np.float32) for motion in found]


def layer_vectors(
    labels: NDArray[np.uint8], missing: Flow, geometry: Geometry
) -> NDArray[np.int16]:
    """Median of the missing motion (H, W, 2 pixels) in each label, int16 (8, 2) motion units."""
    layers = np.zeros((MAX_LABEL + 1, 2), np.int16)
    cell = geometry.cell
    large = labels.repeat(cell, 0).repeat(cell, 1)[: geometry.height, : geometry.width]
    for label in np.unique(labels).tolist():
        layers[label] = _to_units(np.median(missing[large == label], axis=0), geometry)
    return layers


def propose_correction(
    renderer: IntervalRenderer,
    sample: Sample,
    source: Reference,
    missing: tuple[Flow, Flow],
    geometry: Geometry,
    block_log2: int,
    price: float,
) -> Correction | None:
    """The correction of `sample` that pays best, or None.

    `missing` is true minus assumed motion towards the left and the right key picture, in pixels;
    `price` is what one bit must save of the summed distortion at this frame.
    """
    shape = geometry.block_shape(block_log2)
    near, far = (0, 1) if renderer.is_left_nearer(sample.offset) else (1, 0)
    forms = (
        (BOTH, _median_blocks(missing[near], block_log2, geometry)),
        ((LEFT, RIGHT)[far], _median_blocks(missing[far], block_log2, geometry)),
    )
    zero = Correction(block_log2, np.zeros(shape, np.uint8), np.zeros((*shape, 2), np.int16))

    def errors(correction: Correction) -> NDArray[np.float32]:
        rendered = renderer.picture_with(sample, correction)
        return block_sums(source.distortion(rendered), geometry, block_log2)

    unchanged = errors(zero)
    best = unchanged.copy()
    sides, vectors = zero.sides.copy(), zero.vectors.copy()
    for side, field in forms:
        candidate = Correction(block_log2, np.full(shape, side, np.uint8), field)
        cost = errors(candidate) + price * _bits(candidate)
        wins = cost < best
        best[wins], sides[wins], vectors[wins] = cost[wins], side, field[wins]
    return _prune(Correction(block_log2, sides, vectors), unchanged, errors, price)


def _prune(
    correction: Correction,
    unchanged: NDArray[np.float32],
    errors: Callable[[Correction], NDArray[np.float32]],
    price: float,
) -> Correction | None:
    """Drop blocks that do not pay beside their real neighbours; give up when nothing is left."""
    if not _coded(correction).any():
        return None
    gain = unchanged - errors(correction)
    # A block's motion reaches half-way into its neighbours: it is judged with them.
    reach = cv2.blur(gain, (3, 3), borderType=cv2.BORDER_REPLICATE) * 9 * 0.25 + gain * 0.75
    keep = (reach > price * _bits(correction)) & _coded(correction)
    correction = Correction(
        correction.block_log2,
        np.where(keep, correction.sides, 0).astype(np.uint8),
        np.where(keep[..., None], correction.vectors, 0).astype(np.int16),
    )
    saved = float((unchanged - errors(correction)).sum())
    if saved <= price * float((_bits(correction) * _coded(correction)).sum() + 4):
        return None
    return correction


def _coded(correction: Correction) -> NDArray[np.bool_]:
    return np.asarray((correction.sides > 0) | correction.vectors.any(-1), np.bool_)


def _bits(correction: Correction) -> NDArray[np.float32]:
    """Rough price of coding each block: flag, side and two exponential-Golomb numbers."""
    size = np.log2(1 + np.abs(correction.vectors.astype(np.float32)))
    return np.asarray(4 + (2 * size).sum(-1), np.float32)


def _median_blocks(field: Flow, block_log2: int, geometry: Geometry) -> NDArray[np.int16]:
    rows, columns = geometry.block_shape(block_log2)
    side = geometry.cell << block_log2
    below, right = rows * side - field.shape[0], columns * side - field.shape[1]
    padded = np.pad(field, ((0, below), (0, right), (0, 0)), mode="edge")
    blocks = padded.reshape(rows, side, columns, side, 2).transpose(0, 2, 4, 1, 3)
    return _to_units(np.median(blocks.reshape(rows, columns, 2, -1), axis=-1), geometry)


def _to_units(pixels: NDArray[np.floating], geometry: Geometry) -> NDArray[np.int16]:
    units = np.rint(pixels / geometry.motion_unit)
    return np.asarray(np.clip(units, -_LONGEST, _LONGEST), np.int16)
