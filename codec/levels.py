"""The four levels: how much a bit must be worth, and what the scaffold may hold."""

from dataclasses import dataclass, replace
from math import sqrt


@dataclass(frozen=True)
class Level:
    """Settings of one level.

    `price`: lambda, the distortion (see `gsvc.encoders.distortion`), summed over pixels and frames, that a bit
    must save: it decides everything the encoder chooses. `spacing`: seconds between key pictures where nothing
    can be chosen, without look-ahead. `most_bpp`: bits per pixel that a stream is kept under where that price
    would buy more. `block_log2`: corrections of motion on blocks of 2^n cells; `texture_log2`: texture gains
    on blocks of 2^n cells.
    """

    price: float
    spacing: float
    most_bpp: float
    block_log2: int
    texture_log2: int

    def suited_to(self, pixels: int, frame_rate: float) -> "Level":
        """The level for frames of `pixels` pixels, `frame_rate` a second."""
        small = max(1.0, sqrt(_SMALL_PIXELS / pixels))
        slow = min(2.0, max(1.0, _USUAL_FRAME_RATE / frame_rate))
        return replace(self, price=self.price / small, most_bpp=self.most_bpp * small * slow)


LEVELS = (
    Level(price=300.0, spacing=0.8, most_bpp=0.001, block_log2=3, texture_log2=3),
    Level(price=90.0, spacing=0.5, most_bpp=0.003, block_log2=2, texture_log2=2),
    Level(price=30.0, spacing=0.33, most_bpp=0.007, block_log2=2, texture_log2=2),
    Level(price=9.0, spacing=0.2, most_bpp=0.02, block_log2=1, texture_log2=2),
)
"""Index = level."""

GROUP_SECONDS = 4.0
"""Longest time between intra pictures: how long a receiver waits to join."""
_USUAL_FRAME_RATE = 25.0
"""Frames per second from which `most_bpp` holds; at fewer a frame may take more, at most twice as much."""
_SMALL_PIXELS = 80_000
"""Pixels of a frame below which a pixel may take more bits, as the root of the ratio: small pictures have no idle
parts."""
