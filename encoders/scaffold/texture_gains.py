"""Texture gains of a key picture: how much of its detail is raised in each block, where it pays."""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.texture import MAX_GAIN, Texture
from gsvc.codec.bitstream.scaffold import Geometry
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.keyframes.keyframe import STRENGTH, blur_detail
from gsvc.encoders.search.distortion import Reference, block_sums, local_mean, log_energy, quarter
from gsvc.encoders.tuning import TEXTURE_LMBDA

_GAINS = range(MAX_GAIN + 1)
_BITS = [[0.7 if gain == guess else 2.0 + abs(gain - guess) for gain in _GAINS] for guess in _GAINS]
"""What coding a gain takes, about, by what it is guessed to be."""


def choose_texture(
    source: Reference, decoded: Picture, block_log2: int, frames: float, lmbda: float
) -> Texture | None:
    """The gains with the least D + lambda R on blocks of 2^block_log2 cells; None if none pays.

    `source`: of a key picture; `decoded`: the picture as it comes out, RGB uint8 (H, W, 3);
    `frames`: how many frames are drawn from it; `lmbda`: the distortion, summed over pixels and
    frames, that a bit must save.
    """
    lmbda *= TEXTURE_LMBDA
    height, width = decoded.shape[:2]
    geometry = Geometry(width, height)
    maps = _distortions(source, gray(decoded), geometry.cell)
    costs = frames * np.stack([block_sums(each, geometry, block_log2) for each in maps])
    gains = np.zeros(costs.shape[1:], np.uint8)
    # Each block depends on those before it; plain numbers are much faster than small arrays.
    offered = np.moveaxis(costs, 0, -1).tolist()
    paid = saved = 0.0
    for row, column in np.ndindex(*gains.shape):
        block, bits = offered[row][column], _BITS[_guess(gains, row, column)]
        totals = [cost + lmbda * spent for cost, spent in zip(block, bits, strict=True)]
        chosen = totals.index(min(totals))
        gains[row, column] = chosen
        paid += bits[chosen]
        saved += block[0] - block[chosen]
    return Texture(block_log2, gains) if saved > lmbda * paid else None


def _guess(gains: NDArray[np.uint8], row: int, column: int) -> int:
    """Mean of the gains left and above."""
    known = [int(gains[row, column - 1])] if column else []
    known += [int(gains[row - 1, column])] if row else []
    return round(sum(known) / len(known)) if known else 0


def _distortions(source: Reference, luma: Picture, cell: int) -> list[NDArray[np.float32]]:
    """The distortion map under each gain.

    Detail is added linearly, so the energy of gradients under a gain is a quadratic in the gain.
    """
    plain = luma.astype(np.float32)
    detail = blur_detail(plain, cell)
    small, added = quarter(plain), quarter(detail)
    axes = (1, 0), (0, 1)
    ends = [[cv2.Sobel(x, cv2.CV_32F, *axis) for x in (plain, detail)] for axis in axes]
    terms = [[local_mean(product) for product in (a * a, a * b, b * b)] for a, b in ends]
    aa, ab, bb = np.stack(terms, axis=1)
    gains = np.float32(STRENGTH) * np.array(_GAINS, np.float32)
    return [
        source.weighted(
            source.texture(log_energy(aa + 2 * g * ab + g * g * bb)),
            source.structure.misplaced(small + g * added),
        )
        for g in gains
    ]
