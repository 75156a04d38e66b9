"""Coding a clip at a smaller size: area averaging down, Lanczos up, scored at full size."""

from fractions import Fraction
from math import ceil

import cv2
import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.eval.codecs.base import Value

SMALLEST_SIDE = 64
"""Pixels, as coded: x265 writes outside its buffers on some narrower pictures (34, 42, 48 wide)."""

Size = tuple[int, int]
"""Width and height in pixels."""


def read_scale(value: Value) -> Fraction:
    """The setting `scale`, such as "1/2". Raises ConfigError when it is no number."""
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"scale {value!r} is no number: write 1 or 1/2") from error


def coded_size(shown: Size, scale: Fraction) -> Size:
    """Even sides, as 4:2:0 needs: rounded up at full size, to the nearest when scaled.

    `scale` is the coded size relative to the shown one, above 0 and up to 1. Raises ConfigError for
    another scale, and when a coded side is shorter than `SMALLEST_SIDE` pixels.
    """
    if not 0 < scale <= 1:
        raise ConfigError(f"scale {scale} is out of range: above 0, up to 1")
    if scale == 1:
        size = ceil(shown[0] / 2) * 2, ceil(shown[1] / 2) * 2
    else:
        size = 2 * round(shown[0] * scale / 2), 2 * round(shown[1] * scale / 2)
    if min(size) < SMALLEST_SIDE:
        raise ConfigError(
            f"pictures of {size[0]}x{size[1]} are too small to code: "
            f"use a clip and a scale that leave {SMALLEST_SIDE} pixels a side"
        )
    return size


def shrink(picture: Picture, coded: Size) -> Picture:
    """The picture at the coded size: area averages, or its border repeated by at most a pixel."""
    height, width = picture.shape[:2]
    if _is_padded(coded, (width, height)):
        return np.pad(picture, ((0, coded[1] - height), (0, coded[0] - width), (0, 0)), mode="edge")
    return np.asarray(cv2.resize(picture, coded, interpolation=cv2.INTER_AREA), np.uint8)


def enlarge(picture: Picture, shown: Size) -> Picture:
    """The inverse of `shrink`, by Lanczos over 8 x 8 pixels."""
    height, width = picture.shape[:2]
    if _is_padded((width, height), shown):
        return picture[: shown[1], : shown[0]]
    return np.asarray(cv2.resize(picture, shown, interpolation=cv2.INTER_LANCZOS4), np.uint8)


def _is_padded(coded: Size, shown: Size) -> bool:
    return coded == (shown[0] + shown[0] % 2, shown[1] + shown[1] % 2)
