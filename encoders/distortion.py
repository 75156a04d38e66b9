"""What the encoder minimises: an error of local gradient energy, and one of structure.

A perceptual distance cheap enough for the edge. On development clips, over spacings, qualities,
sizes and renderings, the correlation of the first part with ST-LPIPS AlexNet is 0.98, that of the
squared error of smoothed luma 0.59: at these rates texture is missing. Like ST-LPIPS it cannot see
a shift smaller than its window, so the second part, SSIM of luma at a quarter of the size, pays for
things being where they belong (docs/logs/search.md, "A distance for the encoder's search").
"""

import math
from dataclasses import dataclass
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.scaffold import Geometry
from gsvc.decoders.interpolation.optical_flow import gray, shrunk
from gsvc.encoders.face_landmarks import FaceWeights
from gsvc.encoders.tuning import DEFAULT_TUNE, FLAT, TUNES

STRIDE = 4
"""Energies are smooth: every fourth pixel of every fourth line is enough to compare them. Structure
is compared at a quarter of the size."""
_SSIM_WINDOW = 7
_SSIM_FLOORS = (0.01 * 255) ** 2, (0.03 * 255) ** 2

FloatMap = NDArray[np.float32]
_Values = TypeVar("_Values", np.uint8, np.float32)


class Structure:
    """The structure of a small picture, for SSIM (Wang et al. 2004) of others with it."""

    def __init__(self, luma: FloatMap) -> None:
        """`luma`: 0-255."""
        self._luma, self._mean = luma, _mean(luma)
        self._square = self._mean**2
        self._variance = _mean(luma**2) - self._square

    def misplaced(self, other: FloatMap) -> FloatMap:
        """1 - SSIM, 0 to 2, of each pixel."""
        mean = _mean(other)
        square = mean**2
        variance = _mean(other**2) - square
        covariance = _mean(other * self._luma) - mean * self._mean
        light, contrast = _SSIM_FLOORS
        ssim = (2 * mean * self._mean + light) * (2 * covariance + contrast)
        ssim /= (square + self._square + light) * (variance + self._variance + contrast)
        return np.asarray(1 - ssim, np.float32)


class Reference:
    """A source picture to compare renderings with."""

    def __init__(
        self,
        picture: Picture,
        structure_weight: float = TUNES[DEFAULT_TUNE].structure_weight,
        weights: FloatMap | None = None,
    ) -> None:
        """`picture`: RGB (H, W, 3) or luma (H, W), uint8; `structure_weight`: beside texture, which
        weighs 1; `weights`: of the picture's parts, same shape as of `texture`, None: all 1."""
        luma = gray(picture)
        self._structure_weight = structure_weight
        self._weights: FloatMap = np.ones((), np.float32) if weights is None else weights
        self._energies = _energies(luma)
        self.structure = Structure(quarter(luma))

    def sampled(self, picture: Picture) -> "Reference":
        """The reference that `sampled(picture)` makes; `picture`: what this one was made of."""
        sample = sampled(picture)
        if sample is picture:
            return self
        weights = None if np.ndim(self._weights) == 0 else sampled(self._weights, STRIDE)
        return Reference(sample, self._structure_weight, weights)

    @property
    def weight(self) -> float:
        """Mean weight of the picture's parts, 1 without weights."""
        return float(np.mean(self._weights))

    def texture(self, energies: FloatMap) -> FloatMap:
        """Mean over both directions of |log of the ratio of gradient energies|.

        `energies`: logarithms of the other's, across and down, float32 (2, ...). At every fourth
        pixel of every fourth line: float32 (ceil(H / 4), ceil(W / 4)).
        """
        return np.asarray(np.abs(self._energies - energies).mean(axis=0))

    def weaker(self, other: Picture) -> FloatMap:
        """How much weaker the other's texture is: mean over both directions of the log of the ratio
        of gradient energies, below 0 where it is stronger; same shape as of `texture`."""
        return np.asarray((self._energies - _energies(gray(other))).mean(axis=0))

    def misplaced(self, other: Picture) -> FloatMap:
        """1 - SSIM of luma at a quarter of the size, same shape as of `texture`, 0 to 2."""
        return self.structure.misplaced(quarter(gray(other)))

    def distortion(self, other: Picture) -> FloatMap:
        """Both parts, weighted: float32 (ceil(H / 4), ceil(W / 4))."""
        texture = self.texture(_energies(gray(other)))
        return self.weighted(texture, self.misplaced(other))

    def weighted(self, texture: FloatMap, misplaced: FloatMap) -> FloatMap:
        """The sum of both parts as the tune weighs them, and the picture's parts."""
        return np.asarray(
            self._weights * (texture + np.float32(self._structure_weight) * misplaced)
        )

    def total(self, other: Picture) -> float:
        """The distortion summed over all pixels."""
        return sum(self.totals(other))

    def totals(self, other: Picture) -> tuple[float, float]:
        """Its two parts, summed over all pixels: texture, and misplaced structure, weighted."""
        parts = self.texture(_energies(gray(other))), self._structure_weight * self.misplaced(other)
        texture, misplaced = (float((self._weights * part).sum()) * STRIDE**2 for part in parts)
        return texture, misplaced


_WINDOWS = 3
_SAMPLED_PIXELS = 320 * 180
"""Pixels of a picture, about, that are enough to choose for all of it."""


def sampled(values: NDArray[_Values], stride: int = 1) -> NDArray[_Values]:
    """A large picture's sample: three rows of three windows, spread over it and joined.

    `values`: (H, W, ...), a map of every `stride`-th pixel of every such line. Windows of a picture
    and of its maps fit. A picture of up to 320x180 pixels is its own sample.
    """
    rows, columns = (-(-side * stride // STRIDE) for side in values.shape[:2])
    share = math.sqrt(_SAMPLED_PIXELS / (rows * columns * STRIDE**2))
    if share >= 1:
        return values
    down, across = (_windows(side, share, STRIDE // stride) for side in (rows, columns))
    return np.concatenate([np.concatenate([values[y, x] for x in across], 1) for y in down])


def _windows(side: int, share: float, step: int) -> list[slice]:
    """Slices of `share` of a side, in its units of `step` values."""
    third, length = side // _WINDOWS, max(1, int(share * side / _WINDOWS))
    starts = (n * side // _WINDOWS + (third - length) // 2 for n in range(_WINDOWS))
    return [slice(step * start, step * (start + length)) for start in starts]


@dataclass(frozen=True)
class Distortion:
    """Makes what renderings of a stream are compared with."""

    structure_weight: float = TUNES[DEFAULT_TUNE].structure_weight
    """As of `Reference`."""
    faces: FaceWeights | None = None
    """Weights of a picture's parts, where faces weigh more than the rest."""

    def reference(self, picture: Picture) -> Reference:
        """A source picture, RGB uint8 (H, W, 3), to compare with."""
        return Reference(picture, self.structure_weight, self.weights(picture))

    def weights(self, picture: Picture) -> FloatMap | None:
        """Weights of the parts of a source picture, shaped as `Reference.texture`; None: all 1."""
        return None if self.faces is None else self.faces(picture, STRIDE)


def block_sums(values: NDArray[np.float32], geometry: Geometry, block_log2: int) -> FloatMap:
    """Sums of a distortion map over blocks of 2^n cells: float32 `Geometry.block_shape(n)`."""
    rows, columns = geometry.block_shape(block_log2)
    side = geometry.cell << block_log2
    y, x = (np.arange(size) * STRIDE // side for size in values.shape)
    block = (y[:, None] * columns + x[None, :]).ravel()
    sums = np.bincount(block, values.ravel(), rows * columns) * STRIDE**2
    return np.asarray(sums, np.float32).reshape(rows, columns)


def local_mean(values: NDArray[np.floating]) -> FloatMap:
    """Mean in a window about two cells of the segmentation's grid wide, 17 pixels at 288 lines.

    At every fourth pixel of every fourth line: float32 (ceil(H / 4), ceil(W / 4)).
    """
    mean = cv2.boxFilter(values, cv2.CV_32F, _window(values))
    return np.ascontiguousarray(mean[::STRIDE, ::STRIDE], np.float32)


def _window(values: NDArray[np.generic]) -> tuple[int, int]:
    side = 2 * max(4, round(min(values.shape) / 36)) + 1
    return side, side


def log_energy(mean_squares: FloatMap) -> FloatMap:
    """Logarithm of the root of local means of squared gradients."""
    return np.asarray(np.log(np.sqrt(np.maximum(mean_squares, 0)) + np.float32(FLAT)), np.float32)


def _energies(luma: Picture) -> FloatMap:
    # Of whole numbers OpenCV squares and adds up at once, in half the time, to the same sums.
    gradients = (cv2.Sobel(luma, cv2.CV_16S, *axis) for axis in ((1, 0), (0, 1)))
    means = (cv2.sqrBoxFilter(each, cv2.CV_32F, _window(luma)) for each in gradients)
    return np.stack([log_energy(mean[::STRIDE, ::STRIDE]) for mean in means])


def quarter(luma: Picture | FloatMap) -> FloatMap:
    """Luma at a quarter of the size, both sides rounded up."""
    height, width = luma.shape
    size = -(-width // STRIDE), -(-height // STRIDE)
    return np.asarray(shrunk(luma, size), np.float32)


def _mean(values: FloatMap) -> FloatMap:
    return np.asarray(cv2.boxFilter(values, cv2.CV_32F, (_SSIM_WINDOW, _SSIM_WINDOW)), np.float32)
