"""A key picture as the decoder has it: what it shows, and what it knows of how that was coded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.texture import Texture
from gsvc.decoders.texture import gain_map, raise_texture

FINEST_EIGHTHS, COARSEST_CRF = 8, 70


@dataclass(frozen=True)
class KeyPicture:
    """`picture`: RGB uint8 (H, W, 3), its texture raised; `gain`: by how much, float32 (H, W), 0 to 1.75 of its detail;
    `quantizer`: crf / 70, at most 1; `size`: at which it was coded, a share of the side, above 0 to 1."""

    picture: Picture
    gain: NDArray[np.float32]
    quantizer: float
    size: float

    @classmethod
    def of(cls, decoded: Picture, texture: Texture | None, crf: int, eighths: int) -> "KeyPicture":
        """What is shown of a decoded picture whose texture is to be raised."""
        height, width = decoded.shape[:2]
        gain = np.zeros((height, width), np.float32)
        if texture is not None:
            gain = gain_map(texture, width, height)
        quantizer, size = min(1.0, crf / COARSEST_CRF), min(1.0, eighths / FINEST_EIGHTHS)
        return cls(raise_texture(decoded, texture), gain, quantizer, size)
