"""Thumbnails, by which pictures of another clip are noticed: swapped streams must not be scored.

Every decoded clip is compared with its own source and with the sources of the run's other clips.
"""

from collections.abc import Mapping, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

Thumbnails = NDArray[np.float32]
"""Shape (5, 9, 16): luma, 0-255, of five frames spread over a clip."""

_COUNT, _HEIGHT, _WIDTH = 5, 9, 16
_MARGIN = 2.0
"""Clips may show the same place: another clip must be so many times nearer than the own one."""


def thumbnails(frames: Sequence[Picture]) -> Thumbnails:
    """The thumbnails of a clip: RGB uint8 pictures (H, W, 3), at least one."""
    spread = np.linspace(0, len(frames) - 1, _COUNT).round().astype(int)
    small = [cv2.resize(frames[i], (_WIDTH, _HEIGHT), interpolation=cv2.INTER_AREA) for i in spread]
    return np.stack(small).astype(np.float32) @ np.array([0.2126, 0.7152, 0.0722], np.float32)


def belongs_to(
    decoded: Thumbnails, own: Thumbnails, others: Mapping[str, Thumbnails]
) -> str | None:
    """The name of another clip that the pictures clearly belong to, else None."""
    distances = {name: _distance(decoded, other) for name, other in others.items()}
    nearest = min(distances, key=distances.__getitem__, default=None)
    if nearest is None or distances[nearest] * _MARGIN >= _distance(decoded, own):
        return None
    return nearest


def _distance(a: Thumbnails, b: Thumbnails) -> float:
    return float(np.abs(a - b).mean())
