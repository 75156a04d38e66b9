"""Texture: restores to a decoded picture the local contrast that quantisation removed.

This is unsharp masking with a strength for each block. It raises the detail that is left to the
energy of the source's; it invents none.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.texture import Texture

STRENGTH = 0.25
"""The share of a block's detail that one unit of gain adds."""


def blur_detail(values: NDArray[np.float32], cell: int) -> NDArray[np.float32]:
    """What a Gaussian filter removes; its sigma is a quarter of a cell, 2 pixels at 288 lines."""
    return np.asarray(values - cv2.GaussianBlur(values, (0, 0), cell / 4), np.float32)


def gain_map(texture: Texture, width: int, height: int) -> NDArray[np.float32]:
    """The share of its detail that each pixel gains, float32 (height, width), 0 to 1.75.

    It is interpolated between the centres of blocks.
    """
    rows, columns = texture.gains.shape
    side = Geometry(width, height).cell << texture.block_log2
    strength = texture.gains.astype(np.float32) * np.float32(STRENGTH)
    size = columns * side, rows * side
    large = cv2.resize(strength, size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(large[:height, :width], np.float32)


def raise_texture(picture: Picture, texture: Texture | None) -> tuple[Picture, NDArray[np.float32]]:
    """The picture, RGB uint8 (H, W, 3), with its detail raised, and its `gain_map`."""
    height, width = picture.shape[:2]
    if texture is None or not texture.gains.any():
        return picture, np.zeros((height, width), np.float32)
    gain = gain_map(texture, width, height)
    detail = blur_detail(picture.astype(np.float32), Geometry(width, height).cell)
    raised = picture + gain[..., None] * detail
    return np.asarray(np.clip(np.rint(raised), 0, 255), np.uint8), gain
