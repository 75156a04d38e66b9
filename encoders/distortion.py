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
from gsvc.decoders.motion import gray

FLAT = 10.0
"""Gradient (Sobel 3x3 of 0-255 luma) below which texture counts for little."""


_SLOPE, _OFFSET = 0.73, 0.04


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
        self._energies = _log_energies(picture)

    def distortion(self, other: Picture) -> NDArray[np.float32]:
        """Mean over both directions of |log of the ratio of gradient energies|, float32 (H, W)."""
        (x, y), (ox, oy) = self._energies, _log_energies(other)
        return np.asarray((np.abs(x - ox) + np.abs(y - oy)) / np.float32(2), np.float32)


def window_of(shape: tuple[int, ...]) -> int:
    """Side of the window in pixels: about two cells of the segmentation's grid, 17 at 288 lines."""
    return 2 * max(4, round(min(shape) / 36)) + 1


def _log_energies(picture: Picture) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    luma = gray(picture) if picture.ndim == 3 else picture
    window = window_of(luma.shape)
    x, y = cv2.Sobel(luma, cv2.CV_32F, 1, 0), cv2.Sobel(luma, cv2.CV_32F, 0, 1)
    return _log_energy(np.asarray(x, np.float32), window), _log_energy(
        np.asarray(y, np.float32), window
    )


def _log_energy(gradient: NDArray[np.float32], window: int) -> NDArray[np.float32]:
    energy = cv2.boxFilter(gradient * gradient, cv2.CV_32F, (window, window))
    return np.asarray(np.log(np.sqrt(np.maximum(energy, 0)) + np.float32(FLAT)), np.float32)
