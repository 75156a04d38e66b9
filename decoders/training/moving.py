"""Key pictures as frames show them: moved by parts of a pixel.

Frames interpolate the key picture bicubically, which softens it, while the true frame is as sharp
as the true key picture. What a refiner restores must survive that.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

_REACH = 6
"""Lobes of the Lanczos kernel that moves the truth: nearly ideal."""
_BICUBIC = -0.75  # OpenCV's coefficient


def moved(pictures: Sequence[Tensor], truth: Tensor, rng: Generator) -> list[Tensor]:
    """All moved by the same random part of a pixel.

    `pictures` are interpolated as in frames (see `rendering`), `truth` almost without loss. Tensors
    are (B, C, H, W); the results are smaller by 11 pixels each way, as nothing outside is used.
    """
    right, down = (float(part) for part in rng.random(2))
    shown = [_shifted(p, bicubic(right), bicubic(down)) for p in pictures]
    return [*shown, _shifted(truth, lanczos(right), lanczos(down))]


def bicubic(part: float) -> list[float]:
    """Weights of the pixels at -1, 0, 1, 2 for the position `part`, 0 to 1."""
    a = _BICUBIC

    def near(x: float) -> float:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: float) -> float:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(1 + part), near(part), near(1 - part), far(2 - part)]


def lanczos(part: float) -> list[float]:
    """Weights of the pixels at -5 to 6 for the position `part`, 0 to 1."""
    distance = np.arange(1 - _REACH, _REACH + 1) - part
    weights = np.sinc(distance) * np.sinc(distance / _REACH)
    return [float(weight) for weight in weights / weights.sum()]


def _shifted(pictures: Tensor, across: Sequence[float], down: Sequence[float]) -> Tensor:
    """Weighted sums of neighbours, wherever all pixels that `lanczos` needs exist."""
    for axis, weights in ((3, across), (2, down)):
        length, first = pictures.shape[axis] - 2 * _REACH + 1, _REACH - len(weights) // 2
        parts = [pictures.narrow(axis, first + n, length) * w for n, w in enumerate(weights)]
        pictures = torch.stack(parts).sum(0)
    return pictures
