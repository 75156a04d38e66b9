"""What windows are compared by: where light, detail and motion are in what is to be restored.

Embeddings of texts or images do not see motion, nor where things are; latents depend on both.
"""

from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

Embedding: TypeAlias = NDArray[np.float32]
"""(d,), of length 1. The similarity of two is their product, at most 1."""

_CELLS = 16, 12
"""Columns and rows of the grid on which a frame is seen."""
_BRIGHTNESS = 0.5
"""Weight of a frame's mean colour beside its layout."""
_FLOOR = 0.02
"""Contrast, of [-1, 1], below which differences count little: two still windows are alike."""


def embedding(rendering: NDArray[np.uint8]) -> Embedding:
    """Of a window, RGB uint8 (n, H, W, 3); n may be 1. Windows of equal n can be compared."""
    seen = [_seen(frame) for frame in rendering]
    color = np.stack([color for color, _ in seen])
    detail = np.stack([detail for _, detail in seen])
    mean = color.mean((1, 2), keepdims=True)
    brightness = _BRIGHTNESS * np.sqrt(color[0, ..., 0].size) * mean
    parts = [
        _unit(color - mean, brightness),
        _unit(detail - detail.mean((1, 2), keepdims=True)),
        _unit(np.diff(color, axis=0)),
    ]
    return np.concatenate(parts) / np.float32(np.sqrt(len(parts)))


def similarity(left: Embedding, right: Embedding) -> float:
    """From -1 to 1; 1: the same."""
    return float(left @ right)


def _seen(frame: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Colour in [-1, 1] (rows, columns, 3) and detail (rows, columns) of each cell."""
    color = cv2.resize(frame, _CELLS, interpolation=cv2.INTER_AREA).astype(np.float32) / 127.5 - 1
    gray = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY).astype(np.float32) / 127.5
    slopes = np.abs(cv2.Sobel(gray, -1, 1, 0)) + np.abs(cv2.Sobel(gray, -1, 0, 1))
    return color, np.sqrt(cv2.resize(slopes, _CELLS, interpolation=cv2.INTER_AREA))


def _unit(*parts: NDArray[np.float32]) -> Embedding:
    """Of length 1, with a constant beside the values: where all are small they do not differ."""
    values = np.concatenate([part.ravel() for part in parts])
    floor = _FLOOR * np.sqrt(max(values.size, 1))
    whole = np.append(values, np.float32(floor)).astype(np.float32)
    return whole / np.float32(np.linalg.norm(whole))
