"""A window as pretrained models want it: sides padded, key pictures on their grid in time."""

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture


@dataclass(frozen=True)
class Window:
    """Consecutive frames with padded sides, and the key pictures that a model is given of them."""

    frames: NDArray[np.uint8]
    """The rendering, RGB (n, H, W, 3); n is 8k + 1."""
    keys: Mapping[int, Picture]
    """Key pictures by index, RGB uint8 (H, W, 3)."""
    confidence: NDArray[np.float32]
    """(n, H, W), 0 to 1."""
    size: tuple[int, int]
    """Height and width without padding."""

    @classmethod
    def of(
        cls,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        *,
        multiple: int,
        grid: int,
        exact: bool,
    ) -> "Window":
        """A window as `WindowRefiner.restore` gets it; arguments as of it and `keys_on_grid`.

        Sides are padded to a `multiple`, at least twice it, with the pixels at the edge: some
        autoencoders reflect latents at their borders, and need two.
        """
        height, width = rendering.shape[1:3]
        padded = (max(2 * multiple, side + -side % multiple) for side in (height, width))
        sides = tuple((0, far - side) for far, side in zip(padded, (height, width), strict=True))
        return cls(
            np.pad(rendering, ((0, 0), *sides, (0, 0)), "edge"),
            {
                at: np.pad(picture, (*sides, (0, 0)), "edge")
                for at, picture in keys_on_grid(keys, grid, exact=exact).items()
            },
            np.pad(confidence, ((0, 0), *sides), "edge"),
            (height, width),
        )

    def cropped(self, drawn: NDArray[np.uint8]) -> list[Picture]:
        """The frames of the window from those drawn, RGB uint8 (n or more, H, W, 3), padded."""
        height, width = self.size
        return [frame[:height, :width] for frame in drawn[: len(self.frames)]]


def keys_on_grid(keys: Mapping[int, Picture], grid: int, *, exact: bool) -> dict[int, Picture]:
    """At most one key picture for every `grid` frames: those at multiples of it.

    Where there is none, `exact` gives none; else the one nearest to the multiple stands for it, if
    it lies less than half a grid away.
    """
    chosen: dict[int, int] = {}
    for at in sorted(keys):
        place = round(at / grid)
        now = chosen.get(place)
        if now is None or abs(at - place * grid) < abs(now - place * grid):
            chosen[place] = at
    return {at: keys[at] for place, at in chosen.items() if at == place * grid or not exact}


def seed_of(seed: int, rendering: NDArray[np.uint8]) -> int:
    """A seed for the noise of one window, of what it shows.

    Equal windows get equal noise, from wherever a stream is decoded; others do not repeat it.
    """
    return seed << 32 | crc32(rendering[:: max(1, len(rendering) - 1)].tobytes())
