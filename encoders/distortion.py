"""What the encoder minimises: how much local gradient energy a rendering lacks or adds.

A perceptual distance cheap enough for the edge: two Sobel filters and two box filters a picture. On development
clips, over spacings, qualities, sizes and ways to render, its correlation with ST-LPIPS AlexNet is 0.98, that of
the squared error of smoothed luma 0.59: at these rates what is missing is texture, and a shift by less than the
window is not seen (see SEARCH_LOG.md).
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold import Geometry
from gsvc.decoders.motion import gray

STRIDE = 4
"""Energies are smooth: every fourth pixel of every fourth line is enough to compare them."""
FLAT = 10.0
"""Gradient (Sobel 3x3 of 0-255 luma) below which texture counts for little."""
_SLOPE, _OFFSET = 0.73, 0.04

FloatMap = NDArray[np.float32]


def distortion_of(st_lpips: float) -> float:
    """The mean distortion, measured in a search, of a rendering whose ST-LPIPS AlexNet will be `st_lpips`.

    A straight line through trials on development clips; within about 15 % for most video, and too careful
    for soft gray pictures.
    """
    return (st_lpips + _OFFSET) / _SLOPE


class Texture:
    """The local gradient energy of one picture, to compare others with."""

    def __init__(self, picture: Picture) -> None:
        """`picture`: RGB (H, W, 3) or luma (H, W), uint8."""
        self.energies = _energies(picture)

    def distortion(self, other: Picture) -> FloatMap:
        """Mean over both directions of |log of the ratio of gradient energies|, at every fourth pixel of every
        fourth line: float32 (ceil(H / 4), ceil(W / 4))."""
        (x, y), (ox, oy) = self.energies, _energies(other)
        return np.asarray((np.abs(x - ox) + np.abs(y - oy)) / np.float32(2), np.float32)

    def total(self, other: Picture) -> float:
        """The distortion summed over all pixels."""
        return float(self.distortion(other).sum()) * STRIDE**2


def block_sums(values: NDArray[np.float32], geometry: Geometry, block_log2: int) -> FloatMap:
    """Sums of a distortion map over blocks of 2^n cells, in pixels: float32 `Geometry.block_shape(n)`."""
    rows, columns = geometry.block_shape(block_log2)
    side = geometry.cell << block_log2
    y, x = (np.arange(size) * STRIDE // side for size in values.shape)
    block = (y[:, None] * columns + x[None, :]).ravel()
    sums = np.bincount(block, values.ravel(), rows * columns) * STRIDE**2
    return np.asarray(sums, np.float32).reshape(rows, columns)


def log_energy(squares: NDArray[np.floating]) -> FloatMap:
    """Logarithm of the root of the mean of squared gradients in a window, at every fourth pixel.

    The window is about two cells of the segmentation's grid wide: 17 pixels at 288 lines.
    """
    window = 2 * max(4, round(min(squares.shape) / 36)) + 1
    energy = cv2.boxFilter(squares, cv2.CV_32F, (window, window))[::STRIDE, ::STRIDE]
    return np.asarray(np.log(np.sqrt(np.maximum(energy, 0)) + np.float32(FLAT)), np.float32)


def _energies(picture: Picture) -> tuple[FloatMap, FloatMap]:
    luma = gray(picture)
    x, y = cv2.Sobel(luma, cv2.CV_32F, 1, 0), cv2.Sobel(luma, cv2.CV_32F, 0, 1)
    return log_energy(x * x), log_energy(y * y)
