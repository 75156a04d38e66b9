"""Flow: corrections to the decoder's own motion estimate, kept only where they pay for their bits.

At an anchor the encoder knows the true motion towards both coded pictures (from the source frames)
and the motion that the decoder will assume. A block of the difference is a candidate in two forms:
move what is drawn from the nearer coded picture, or draw from the farther one. Each is rendered,
and the form with the least D + lambda R wins; `distortion.py` defines D.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.entropy_coding import Coder
from gsvc.codec.bitstream.layers.flow import BOTH, FLOW, LEFT, RIGHT, Correction, CorrectionGrid
from gsvc.codec.bitstream.scaffold import Geometry, Sample
from gsvc.decoders.interpolation.optical_flow import Flow
from gsvc.encoders.distortion import block_sums
from gsvc.encoders.scaffold.extractor import AnchorProbe, Extractor, to_motion_units


class FlowExtractor(Extractor):
    """The corrections of each anchor."""

    layer = FLOW

    def improve(self, probe: AnchorProbe, anchor: Sample) -> Sample:
        """The correction that pays best, if one does."""
        geometry, block_log2, lmbda = self._geometry, self._level.block_log2, probe.lmbda
        missing = probe.missing(anchor)
        past = None if probe.predictor is None else probe.predictor[FLOW]
        shape = geometry.block_shape(block_log2)
        near, far = (0, 1) if probe.is_left_nearer else (1, 0)
        forms = (BOTH, missing[near]), ((LEFT, RIGHT)[far], missing[far])
        sides, vectors = np.zeros(shape, np.uint8), np.zeros((*shape, 2), np.int16)

        def errors(correction: Correction) -> NDArray[np.float32]:
            rendered = probe.picture(anchor.having(FLOW, correction))
            return block_sums(probe.source.distortion(rendered), geometry, block_log2)

        unchanged = errors(Correction(block_log2, sides, vectors))
        best = unchanged.copy()
        for side, motion in forms:
            field = _median_blocks(motion, block_log2, geometry)
            candidate = Correction(block_log2, np.full(shape, side, np.uint8), field)
            cost = errors(candidate) + lmbda * _block_bits(candidate, past)
            wins = cost < best
            best[wins], sides[wins], vectors[wins] = cost[wins], side, field[wins]
        found = Correction(block_log2, sides, vectors)
        pruned = _pruned(found, past, unchanged - errors(found), lmbda)
        if pruned is None:
            return anchor
        saved = float((unchanged - errors(pruned)).sum())
        pays = saved > lmbda * float(_block_bits(pruned, past).sum())
        return anchor.having(FLOW, pruned) if pays else anchor


def _pruned(
    correction: Correction, past: Correction | None, gain: NDArray[np.float32], lmbda: float
) -> Correction | None:
    """The blocks that pay beside their real neighbours; None where there is none."""
    coded = (correction.sides > 0) | correction.vectors.any(-1)
    # A block's motion reaches half-way into its neighbours: it is judged with them.
    reach = cv2.blur(gain, (3, 3), borderType=cv2.BORDER_REPLICATE) * 9 * 0.25 + gain * 0.75
    keep = (reach > lmbda * _block_bits(correction, past)) & coded
    if not keep.any():
        return None
    return Correction(
        correction.block_log2,
        np.where(keep, correction.sides, 0).astype(np.uint8),
        np.where(keep[..., None], correction.vectors, 0).astype(np.int16),
    )


def _block_bits(correction: Correction, before: Correction | None) -> NDArray[np.float32]:
    """What coding each block takes, float32 (rows, columns), predicted from `before`. The models
    have learned from the correction itself, as they will have from others like it."""
    coder, shape = Coder(), correction.sides.shape
    if before is not None and before.block_log2 != correction.block_log2:
        before = None
    for _ in ("learn", "count"):
        grid = CorrectionGrid(coder, (shape[0], shape[1]), before)
        totals = [coder.total]
        for row, column in np.ndindex(*shape):
            grid.code_block(row, column, correction)
            totals.append(coder.total)
    return np.diff(totals).astype(np.float32).reshape(shape)


def _median_blocks(field: Flow, block_log2: int, geometry: Geometry) -> NDArray[np.int16]:
    rows, columns = geometry.block_shape(block_log2)
    side = geometry.cell << block_log2
    below, right = rows * side - field.shape[0], columns * side - field.shape[1]
    padded = np.pad(field, ((0, below), (0, right), (0, 0)), mode="edge")
    blocks = padded.reshape(rows, side, columns, side, 2).transpose(0, 2, 4, 1, 3)
    return to_motion_units(np.median(blocks.reshape(rows, columns, 2, -1), axis=-1), geometry)
