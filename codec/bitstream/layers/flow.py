"""Flow: corrections to the motion that the decoder estimates, sparse on a grid of blocks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import errors, scaffold
from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element

BOTH, LEFT, RIGHT = 0, 1, 2
"""Which coded picture a block is drawn from."""

_PRESENT = Element("flow.present", "flow", FLAG)
_BLOCK = Element("flow.block", "flow", UNSIGNED, 3)
_CODED = Element("flow.coded", "flow", FLAG, contexts=6)
_ONE_SIDED = Element("flow.one_sided", "flow", FLAG, contexts=3)
_RIGHT = Element("flow.right", "flow", FLAG, contexts=3)
_VECTOR = Element("flow.vector", "flow", SIGNED, 2 * scaffold.MAX_VECTOR, contexts=2)


@dataclass(frozen=True, eq=False)
class Correction:
    """Corrections at one frame; a block of zeros is not corrected."""

    block_log2: int
    """0 to 3: the side of a block is 2^block_log2 cells."""
    sides: NDArray[np.uint8]
    """(rows, columns), BOTH, LEFT or RIGHT: the coded picture to draw the block from."""
    vectors: NDArray[np.int16]
    """(rows, columns, 2), x and y in motion units, added to the motion towards both pictures."""

    def is_coded(self, row: int, column: int) -> bool:
        """Whether a block is corrected."""
        return bool(self.sides[row, column]) or bool(self.vectors[row, column].any())


def _code(
    coder: Coder, site: scaffold.Site, before: Correction | None, value: Correction | None
) -> Correction | None:
    if not coder.code(_PRESENT, None if coder.reading else int(value is not None)):
        return None
    block_log2 = coder.code(_BLOCK, None if value is None else value.block_log2)
    shape = site.geometry.block_shape(block_log2)
    if value is not None and value.sides.shape != shape:
        raise errors.ConfigError(f"a correction grid of {value.sides.shape}: {shape} is needed")
    if before is not None and before.block_log2 != block_log2:
        before = None
    grid = CorrectionGrid(coder, shape, before)
    for row, column in np.ndindex(*shape):
        grid.code_block(row, column, value)
    return Correction(block_log2, grid.sides, grid.vectors)


class CorrectionGrid:
    """The blocks coded so far, from which contexts and predictions are derived."""

    def __init__(self, coder: Coder, shape: tuple[int, int], before: Correction | None) -> None:
        rows, columns = shape
        self._coder, self._before = coder, before
        self.sides = np.zeros(shape, np.uint8)
        self.vectors = np.zeros((*shape, 2), np.int16)
        self._coded = np.zeros((rows + 1, columns + 1), np.int8)  # a border above and to the left

    def code_block(self, row: int, column: int, value: Correction | None) -> None:
        """Code whether a block is corrected, and how."""
        coder, left, above = self._coder, self._coded[row + 1, column], self._coded[row, column + 1]
        past = self._before is not None and self._before.is_coded(row, column)
        flag = None if value is None else int(value.is_coded(row, column))
        if not coder.code(_CODED, flag, int(above) + int(left) + 3 * past):
            return
        self._coded[row + 1, column + 1] = 1
        guess = self._guess(row, column, self._before if past else None)
        context = 1 + (int(self.sides[row, column - 1]) != BOTH) if left else 0
        side = None if value is None else int(value.sides[row, column])
        self.sides[row, column] = _code_side(coder, side, context)
        for axis in (0, 1):
            part = None if value is None else int(value.vectors[row, column, axis]) - guess[axis]
            moved = guess[axis] + coder.code(_VECTOR, part, axis)
            if abs(moved) > scaffold.MAX_VECTOR:
                raise errors.LimitError(f"a motion vector is beyond {scaffold.MAX_VECTOR} units")
            self.vectors[row, column, axis] = moved

    def _guess(self, row: int, column: int, before: Correction | None) -> tuple[int, int]:
        """Median of the coded neighbours: left, above, and the same block at the anchor before."""
        known = []
        if self._coded[row + 1, column]:
            known.append(self.vectors[row, column - 1].tolist())
        if self._coded[row, column + 1]:
            known.append(self.vectors[row - 1, column].tolist())
        if before is not None:
            known.append(before.vectors[row, column].tolist())
        if not known:
            return 0, 0
        middle = [sorted(v[axis] for v in known)[len(known) // 2] for axis in (0, 1)]
        return middle[0], middle[1]


def _code_side(coder: Coder, side: int | None, context: int) -> int:
    one_sided = None if side is None else int(side != BOTH)
    if not coder.code(_ONE_SIDED, one_sided, context):
        return BOTH
    right = coder.code(_RIGHT, None if side is None else int(side == RIGHT), context)
    return RIGHT if right else LEFT


FLOW: scaffold.Layer[Correction] = scaffold.Layer(
    name="flow",
    scope=scaffold.Scope.SAMPLE,
    header_bit=2,
    default=False,
    code=_code,
    digest=lambda value: scaffold.digest(value.block_log2, value.sides, value.vectors),
    absent=scaffold.ABSENT,
)
