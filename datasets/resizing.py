"""The picture size of the evaluation protocol: a short side, and one way to get there."""

from fractions import Fraction

import cv2
import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture

SIZES: dict[str, int | None] = {"288": 288, "480": 480, "native": None}
"""Name of a size -> short side in pixels; None leaves the clip's own size."""


def short_side(size: str) -> int | None:
    """The short side in pixels that a size stands for. Raises ConfigError for an unknown size."""
    if size not in SIZES:
        raise ConfigError(f"size {size!r}: choose from {', '.join(SIZES)}")
    return SIZES[size]


def protocol_size(width: int, height: int, short_side: int | None) -> tuple[int, int]:
    """Width and height with the short side made `short_side` pixels, both even; None: as they are."""
    if short_side is None:
        return width, height
    scale = Fraction(short_side, min(width, height))
    return _even(width * scale), _even(height * scale)


def resized(picture: Picture, width: int, height: int) -> Picture:
    """The picture at another size, by Lanczos upwards and area averaging downwards."""
    if picture.shape[:2] == (height, width):
        return picture
    grows = height * width > picture.shape[0] * picture.shape[1]
    method = cv2.INTER_LANCZOS4 if grows else cv2.INTER_AREA
    return np.asarray(cv2.resize(picture, (width, height), interpolation=method), np.uint8)


def _even(length: Fraction) -> int:
    return max(2, 2 * int(length / 2 + Fraction(1, 2)))
