"""How corrections to the motion are laid out in elements: sparse, on a grid of blocks."""

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError, LimitError
from gsvc.codec.limits import MAX_VECTOR
from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.types import BOTH, LEFT, RIGHT, Correction, Geometry


def code_correction(
    coder: Coder,
    geometry: Geometry,
    before: Correction | None,
    value: Correction | None,
    *,
    reading: bool,
) -> Correction | None:
    """Code the correction of one sample; None, as `value` too, when nothing is corrected.

    `before`: the correction of the sample before, None if it had none. When `reading`, `value` is
    None. Raises ConfigError for a `value` whose grid does not fit the picture, LimitError for a
    vector beyond `MAX_VECTOR` units.
    """
    if not coder.code("flow.present", None if reading else int(value is not None)):
        return None
    block_log2 = coder.code("flow.block", None if value is None else value.block_log2)
    rows, columns = geometry.block_shape(block_log2)
    if value is not None and value.sides.shape != (rows, columns):
        raise ConfigError(f"a correction grid of {value.sides.shape}: {(rows, columns)} is needed")
    if before is not None and before.block_log2 != block_log2:
        before = None
    sides = np.zeros((rows, columns), np.uint8)
    vectors = np.zeros((rows, columns, 2), np.int16)
    coded = np.zeros((rows + 1, columns + 1), np.int8)
    for row in range(rows):
        for column in range(columns):
            neighbours = int(coded[row, column + 1]) + int(coded[row + 1, column])
            past = before is not None and _is_coded(before, row, column)
            flag = None if value is None else int(_is_coded(value, row, column))
            if not coder.code("flow.coded", flag, neighbours + 3 * past):
                continue
            coded[row + 1, column + 1] = 1
            guess = _guess_vector(vectors, coded, before if past else None, row, column)
            side = None if value is None else int(value.sides[row, column])
            context = 0
            if coded[row + 1, column]:
                context = 1 + (int(sides[row, column - 1]) != BOTH)
            sides[row, column] = _code_side(coder, side, context)
            for axis in (0, 1):
                part = (
                    None if value is None else int(value.vectors[row, column, axis]) - guess[axis]
                )
                moved = guess[axis] + coder.code("flow.vector", part, axis)
                if abs(moved) > MAX_VECTOR:
                    raise LimitError(f"a motion vector is beyond {MAX_VECTOR} units")
                vectors[row, column, axis] = moved
    return Correction(block_log2, sides, vectors)


def _is_coded(correction: Correction, row: int, column: int) -> bool:
    return bool(correction.sides[row, column]) or bool(correction.vectors[row, column].any())


def _code_side(coder: Coder, side: int | None, context: int) -> int:
    one_sided = None if side is None else int(side != BOTH)
    if not coder.code("flow.one_sided", one_sided, context):
        return BOTH
    right = coder.code("flow.right", None if side is None else int(side == RIGHT), context)
    return RIGHT if right else LEFT


def _guess_vector(
    vectors: NDArray[np.int16],
    coded: NDArray[np.int8],
    before: Correction | None,
    row: int,
    column: int,
) -> tuple[int, int]:
    """Median of the coded neighbours: left, above, and the same block at the anchor before."""
    known = []
    if coded[row + 1, column]:
        known.append(vectors[row, column - 1].tolist())
    if coded[row, column + 1]:
        known.append(vectors[row - 1, column].tolist())
    if before is not None:
        known.append(before.vectors[row, column].tolist())
    if not known:
        return 0, 0
    middle = [sorted(v[axis] for v in known)[len(known) // 2] for axis in (0, 1)]
    return middle[0], middle[1]
