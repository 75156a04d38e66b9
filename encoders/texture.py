"""Texture gains of a key picture: how much of its detail is raised, block by block, where that pays."""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.limits import MAX_GAIN
from gsvc.codec.scaffold import Geometry
from gsvc.decoders.motion import gray
from gsvc.decoders.texture import STRENGTH, blur_detail
from gsvc.encoders.distortion import FLAT, window_of

_STRIDE = 4
"""The energies are smooth: every fourth pixel of every fourth line is enough to compare them."""

Energies = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


def choose_gains(
    source: Picture, decoded: Picture, block_log2: int, frames: float, price: float
) -> NDArray[np.uint8] | None:
    """Gains with the least D + lambda R, uint8 `Geometry.block_shape(block_log2)`, or None if none pays.

    `frames`: how many frames are drawn from this picture; `price`: what a bit must save of the distortion
    summed over pixels and frames.
    """
    height, width = source.shape[:2]
    geometry = Geometry(width, height)
    costs = frames * _block_sums(_distortions(source, decoded), geometry, block_log2)
    gains = np.zeros(costs.shape[1:], np.uint8)
    spent = 0.0
    for row, column in np.ndindex(*gains.shape):
        guess = _guess(gains, row, column)
        bits = np.where(
            np.arange(MAX_GAIN + 1) == guess, 0.7, 2 + np.abs(np.arange(MAX_GAIN + 1) - guess)
        )
        chosen = int(np.argmin(costs[:, row, column] + price * bits))
        gains[row, column] = chosen
        spent += bits[chosen]
    saved = costs[0].sum() - np.take_along_axis(costs, gains[None].astype(int), 0).sum()
    return gains if saved > price * spent else None


def _guess(gains: NDArray[np.uint8], row: int, column: int) -> int:
    left = int(gains[row, column - 1]) if column else None
    above = int(gains[row - 1, column]) if row else None
    known = [g for g in (left, above) if g is not None]
    return round(sum(known) / len(known)) if known else 0


def _distortions(source: Picture, decoded: Picture) -> NDArray[np.float32]:
    """Distortion at every fourth pixel for each gain, float32 (gains, h, w).

    Detail is added linearly, so the gradient energy under a gain is a quadratic in it: three box filters serve
    all gains.
    """
    height, width = source.shape[:2]
    cell = Geometry(width, height).cell
    luma = gray(decoded).astype(np.float32)
    detail = blur_detail(luma, cell)
    total = None
    for axis in ((1, 0), (0, 1)):
        wanted = _log(_box(cv2.Sobel(gray(source), cv2.CV_32F, *axis) ** 2))
        base, extra = (cv2.Sobel(x, cv2.CV_32F, *axis) for x in (luma, detail))
        square, cross, fine = _box(base**2), _box(base * extra), _box(extra**2)
        parts = []
        for gain in range(MAX_GAIN + 1):
            a = np.float32(gain * STRENGTH)
            parts.append(np.abs(_log(square + 2 * a * cross + a * a * fine) - wanted))
        each = np.stack(parts)
        total = each if total is None else total + each
    assert total is not None
    return np.asarray(total / np.float32(2), np.float32)


def _box(values: NDArray[np.floating]) -> NDArray[np.float32]:
    window = window_of(values.shape)
    smooth = cv2.boxFilter(values, cv2.CV_32F, (window, window))
    return np.asarray(smooth[::_STRIDE, ::_STRIDE], np.float32)


def _log(energy: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.log(np.sqrt(np.maximum(energy, 0)) + np.float32(FLAT)), np.float32)


def _block_sums(
    values: NDArray[np.float32], geometry: Geometry, block_log2: int
) -> NDArray[np.float64]:
    """Sums over blocks in full-size pixels, float64 (gains, rows, columns)."""
    rows, columns = geometry.block_shape(block_log2)
    side = geometry.cell << block_log2
    y = np.arange(values.shape[1]) * _STRIDE // side
    x = np.arange(values.shape[2]) * _STRIDE // side
    block = (y[:, None] * columns + x[None, :]).ravel()
    sums = [np.bincount(block, plane.ravel(), rows * columns) for plane in values]
    return np.asarray(np.stack(sums) * _STRIDE**2, np.float64).reshape(-1, rows, columns)
