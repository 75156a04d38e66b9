"""Grids over a picture, derived from the display size, so that they cost no bits."""

from dataclasses import dataclass
from math import ceil

MAX_VECTOR = 1023
"""Largest magnitude of a motion vector's component, in motion units."""


@dataclass(frozen=True)
class Geometry:
    """Grids over a picture of `width` x `height` pixels."""

    width: int
    height: int

    @property
    def cell(self) -> int:
        """Side of a cell in pixels: 8 at 288 lines."""
        return max(8, round(min(self.width, self.height) / 36))

    @property
    def label_shape(self) -> tuple[int, int]:
        """(rows, columns) of the grid of cells."""
        return ceil(self.height / self.cell), ceil(self.width / self.cell)

    def block_shape(self, block_log2: int) -> tuple[int, int]:
        """(rows, columns) of the grid of blocks of 2^block_log2 by 2^block_log2 cells."""
        side = self.cell << block_log2
        return ceil(self.height / side), ceil(self.width / side)

    def coded_size(self, scale: int) -> tuple[int, int]:
        """(width, height) of pictures coded at `scale` / 8 of the display size, rounded up to even.

        `scale` is 1 to 8.
        """
        return 2 * ceil(self.width * scale / 16), 2 * ceil(self.height * scale / 16)

    @property
    def motion_unit(self) -> float:
        """Pixels in one motion unit, 1/8 of a cell: one pixel at 288 lines."""
        return self.cell / 8
