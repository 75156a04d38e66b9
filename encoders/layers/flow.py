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
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.flow import BOTH, FLOW, LEFT, RIGHT, Correction
from gsvc.codec.scaffold.types import Sample
from gsvc.decoders.motion.estimation import Flow
from gsvc.encoders.anchor_trial import AnchorTrial
from gsvc.encoders.distortion import block_sums
from gsvc.encoders.layers.extractor import Observed
from gsvc.encoders.motion import to_motion_units
from gsvc.encoders.tuning import Level


class FlowExtractor:
    """The corrections of each anchor; see `Extractor`."""

    layer, has_memory = FLOW, False

    def __init__(self, geometry: Geometry, level: Level) -> None:
        self._geometry, self._block_log2 = geometry, level.block_log2

    def begin_scene(self, picture: Picture, sample: Sample, *, watching: bool) -> Sample:
        """Nothing moves at a coded picture."""
        return sample

    def observe(self, sources: Sequence[Picture], found: Observed, *, watching: bool) -> Observed:
        """Nothing is corrected before a trial."""
        return found

    def settle(self, trial: AnchorTrial, anchor: Sample) -> None:
        """There is nothing to settle."""

    def improve(self, trial: AnchorTrial, anchor: Sample) -> Sample:
        """The correction that pays best, if one does."""
        found = propose_correction(trial, anchor, self._geometry, self._block_log2)
        return anchor if found is None else anchor.having(FLOW, found)

    def says_something(self, sample: Sample) -> bool:
        """Whether anything is corrected."""
        return sample[FLOW] is not None


def propose_correction(
    trial: AnchorTrial, sample: Sample, geometry: Geometry, block_log2: int
) -> Correction | None:
    """The correction of `sample` that pays best, or None."""
    missing, renderer = trial.missing(sample), trial.show(sample)
    shape = geometry.block_shape(block_log2)
    near, far = (0, 1) if renderer.is_left_nearer(sample.offset) else (1, 0)
    forms = (
        (BOTH, _median_blocks(missing[near], block_log2, geometry)),
        ((LEFT, RIGHT)[far], _median_blocks(missing[far], block_log2, geometry)),
    )
    sides, vectors = np.zeros(shape, np.uint8), np.zeros((*shape, 2), np.int16)

    def errors(correction: Correction) -> NDArray[np.float32]:
        rendered = renderer.picture_with(sample, correction)
        return block_sums(trial.source.distortion(rendered), geometry, block_log2)

    unchanged = errors(Correction(block_log2, sides, vectors))
    best = unchanged.copy()
    for side, field in forms:
        candidate = Correction(block_log2, np.full(shape, side, np.uint8), field)
        cost = errors(candidate) + trial.lmbda * _bits(candidate)
        wins = cost < best
        best[wins], sides[wins], vectors[wins] = cost[wins], side, field[wins]
    return _prune(Correction(block_log2, sides, vectors), unchanged, errors, trial.lmbda)


def _prune(
    correction: Correction,
    unchanged: NDArray[np.float32],
    errors: Callable[[Correction], NDArray[np.float32]],
    lmbda: float,
) -> Correction | None:
    """Drop blocks that do not pay beside their real neighbours; give up when nothing is left."""
    if not _coded(correction).any():
        return None
    gain = unchanged - errors(correction)
    # A block's motion reaches half-way into its neighbours: it is judged with them.
    reach = cv2.blur(gain, (3, 3), borderType=cv2.BORDER_REPLICATE) * 9 * 0.25 + gain * 0.75
    keep = (reach > lmbda * _bits(correction)) & _coded(correction)
    correction = Correction(
        correction.block_log2,
        np.where(keep, correction.sides, 0).astype(np.uint8),
        np.where(keep[..., None], correction.vectors, 0).astype(np.int16),
    )
    saved = float((unchanged - errors(correction)).sum())
    if saved <= lmbda * float((_bits(correction) * _coded(correction)).sum() + 4):
        return None
    return correction


def _coded(correction: Correction) -> NDArray[np.bool_]:
    return np.asarray((correction.sides > 0) | correction.vectors.any(-1), np.bool_)


def _bits(correction: Correction) -> NDArray[np.float32]:
    """Rough cost of coding each block: flag, side and two exponential-Golomb numbers."""
    size = np.log2(1 + np.abs(correction.vectors.astype(np.float32)))
    return np.asarray(4 + (2 * size).sum(-1), np.float32)


def _median_blocks(field: Flow, block_log2: int, geometry: Geometry) -> NDArray[np.int16]:
    rows, columns = geometry.block_shape(block_log2)
    side = geometry.cell << block_log2
    below, right = rows * side - field.shape[0], columns * side - field.shape[1]
    padded = np.pad(field, ((0, below), (0, right), (0, 0)), mode="edge")
    blocks = padded.reshape(rows, side, columns, side, 2).transpose(0, 2, 4, 1, 3)
    return to_motion_units(np.median(blocks.reshape(rows, columns, 2, -1), axis=-1), geometry)
