"""A decoded key picture, with what a refiner should know about its coding."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.texture import Texture
from gsvc.decoders.texture import raise_texture

FINEST_SCALE, COARSEST_CRF = 8, 70


@dataclass(frozen=True)
class KeyPicture:
    """A decoded key picture, ready to be refined."""

    picture: Picture
    """RGB uint8 (H, W, 3), its texture raised."""
    gain: NDArray[np.float32]
    """How much of its detail was added to it, float32 (H, W), 0 to 1.75."""
    quantizer: float
    """crf / 70, at most 1."""
    size: float
    """The share of the side at which it was coded, above 0, at most 1."""

    @classmethod
    def of(cls, decoded: Picture, texture: Texture | None, crf: float, scale: int) -> "KeyPicture":
        """Raise the texture of a decoded picture, RGB uint8 (H, W, 3).

        `crf`: its quantiser, 1 to 70; `scale`: its coded size in eighths of the display size.
        """
        quantizer, size = min(1.0, crf / COARSEST_CRF), min(1.0, scale / FINEST_SCALE)
        return cls(*raise_texture(decoded, texture), quantizer, size)
