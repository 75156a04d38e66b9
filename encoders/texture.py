"""Texture gains of a key picture: how much of its detail is raised, block by block, where that pays."""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.limits import MAX_GAIN
from gsvc.codec.scaffold import Geometry, Texture
from gsvc.decoders.motion import gray
from gsvc.decoders.texture import STRENGTH, blur_detail
from gsvc.encoders.distortion import Reference, block_sums, log_energy

_GAINS = np.arange(MAX_GAIN + 1)
_TEXTURE_PRICE = 6.0
"""A key picture's gain in texture reaches the frames drawn from it only in part (see SEARCH_LOG.md)."""


def choose_texture(
    source: Picture, decoded: Picture, block_log2: int, frames: float, price: float
) -> Texture | None:
    """The gains that pay on blocks of 2^block_log2 cells, or None. Arguments as of `choose_gains`, but `price` is what
    a bit must save anywhere."""
    gains = choose_gains(source, decoded, block_log2, frames, _TEXTURE_PRICE * price)
    return None if gains is None else Texture(block_log2, gains)


def choose_gains(
    source: Picture, decoded: Picture, block_log2: int, frames: float, price: float
) -> NDArray[np.uint8] | None:
    """Gains with the least D + lambda R, uint8 `Geometry.block_shape(block_log2)`, or None if none pays.

    `frames`: how many frames are drawn from this picture; `price`: what a bit must save of the distortion
    summed over pixels and frames.
    """
    height, width = source.shape[:2]
    geometry = Geometry(width, height)
    maps = _distortions(Reference(source), gray(decoded).astype(np.float32), geometry.cell)
    costs = frames * np.stack([block_sums(each, geometry, block_log2) for each in maps])
    gains = np.zeros(costs.shape[1:], np.uint8)
    spent = 0.0
    for row, column in np.ndindex(*gains.shape):
        guess = _guess(gains, row, column)
        bits = np.where(guess == _GAINS, 0.7, 2 + np.abs(_GAINS - guess))
        chosen = int(np.argmin(costs[:, row, column] + price * bits))
        gains[row, column] = chosen
        spent += float(bits[chosen])
    saved = costs[0].sum() - np.take_along_axis(costs, gains[None].astype(int), 0).sum()
    return gains if saved > price * spent else None


def _guess(gains: NDArray[np.uint8], row: int, column: int) -> int:
    """Mean of the gains left and above."""
    known = [int(gains[row, column - 1])] if column else []
    known += [int(gains[row - 1, column])] if row else []
    return round(sum(known) / len(known)) if known else 0


def _distortions(
    source: Reference, luma: NDArray[np.float32], cell: int
) -> list[NDArray[np.float32]]:
    """The distortion map under each gain.

    Detail is added linearly, so the gradient under a gain is a line between two gradients.
    """
    detail = blur_detail(luma, cell)
    axes = ((1, 0), (0, 1))
    ends = [tuple(cv2.Sobel(x, cv2.CV_32F, *axis) for x in (luma, detail)) for axis in axes]
    maps = []
    for gain in _GAINS.tolist():
        raised = [base + np.float32(gain * STRENGTH) * extra for base, extra in ends]
        x, y = (log_energy(r * r) - e for r, e in zip(raised, source.energies, strict=True))
        maps.append(np.asarray((np.abs(x) + np.abs(y)) / np.float32(2), np.float32))
    return maps
