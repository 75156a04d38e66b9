"""Picture sizes of the evaluation protocol, and resizing to them."""

from fractions import Fraction

import cv2
import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture

SIZES: dict[str, int | None] = {"288": 288, "480": 480, "native": None}
"""Name of a size -> short side in pixels; None keeps the clip's own size."""


def short_side(size: str) -> int | None:
    """The short side of a named size. Raises ConfigError for an unknown name."""
    if size not in SIZES:
        raise ConfigError(f"size {size!r}: choose from {', '.join(SIZES)}")
    return SIZES[size]


def protocol_size(width: int, height: int, short_side: int | None) -> tuple[int, int]:
    """Width and height, both even, scaled to a short side of `short_side` pixels (None: as is)."""
    if short_side is None:
        return width, height
    scale = Fraction(short_side, min(width, height))
    return _even(width * scale), _even(height * scale)


def resized(picture: Picture, width: int, height: int) -> Picture:
    """The picture at another size, by Lanczos if larger and area averaging if smaller."""
    if picture.shape[:2] == (height, width):
        return picture
    grows = height * width > picture.shape[0] * picture.shape[1]
    method = cv2.INTER_LANCZOS4 if grows else cv2.INTER_AREA
    return np.asarray(cv2.resize(picture, (width, height), interpolation=method), np.uint8)


def _even(length: Fraction) -> int:
    return max(2, 2 * int(length / 2 + Fraction(1, 2)))
