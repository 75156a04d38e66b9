"""Texture: gives back to a decoded key picture the local contrast that its quantiser took away.

Unsharp masking whose strength is sent for blocks of four cells: no texture is invented, what is left of it is
raised to the energy that the source has there.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold import Geometry, Texture

STRENGTH = 0.25
"""Share of the detail that one unit of gain adds."""


def blur_detail(values: NDArray[np.float32], cell: int) -> NDArray[np.float32]:
    """What a Gaussian of a quarter of a cell (2 pixels at 288 lines) takes away, float32, same shape."""
    return np.asarray(values - cv2.GaussianBlur(values, (0, 0), cell / 4), np.float32)


def raise_texture(picture: Picture, texture: Texture | None) -> Picture:
    """The picture (RGB uint8) with its detail raised; between block centres the gain is interpolated.

    None leaves the picture as it is.
    """
    if texture is None or not texture.gains.any():
        return picture
    gains = texture.gains
    height, width = picture.shape[:2]
    rows, columns = gains.shape
    cell = Geometry(width, height).cell
    side = cell << texture.block_log2
    strength = cv2.resize(
        gains.astype(np.float32) * np.float32(STRENGTH),
        (columns * side, rows * side),
        interpolation=cv2.INTER_LINEAR,
    )[:height, :width, None]
    raised = picture + strength * blur_detail(picture.astype(np.float32), cell)
    return np.asarray(np.clip(np.rint(raised), 0, 255), np.uint8)
