"""Grids over a picture. They follow from the display size alone, so they cost no bits."""

from dataclasses import dataclass
from math import ceil

MAX_VECTOR = 1023
"""Magnitude of a motion vector's component, in motion units."""


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
        """(rows, columns) of a grid of blocks, each 2^block_log2 cells wide."""
        side = self.cell << block_log2
        return ceil(self.height / side), ceil(self.width / side)

    def coded_size(self, scale: int) -> tuple[int, int]:
        """(width, height) of pictures coded at `scale` eighths of the display size, rounded up to even."""
        return 2 * ceil(self.width * scale / 16), 2 * ceil(self.height * scale / 16)

    @property
    def motion_unit(self) -> float:
        """Pixels in one motion unit, 1/8 of a cell: one pixel at 288 lines."""
        return self.cell / 8
