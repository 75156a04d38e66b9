"""Key pictures as frames show them: moved by parts of a pixel.

Frames interpolate the key picture bicubically, which softens it, while the true frame is as sharp
as the true key picture. What a refiner restores must survive that.
"""

import torch
from torch import Tensor
from torch.nn import functional

from gsvc.decoders.training.standalone.dice import Dice

_REACH = 6
"""Lobes of the Lanczos kernel that moves the truth: nearly ideal."""
_BICUBIC = -0.75  # OpenCV's coefficient


def moved(
    estimate: Tensor, picture: Tensor, truth: Tensor, dice: Dice, share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """All moved by a random part of a pixel, another one for each sample.

    `estimate` and `picture` are interpolated as in frames (see `rendering`), `truth` almost without
    loss. `share`: of the samples that move at all. Tensors are (B, C, H, W); the results are
    smaller by 11 pixels each way, as nothing outside is used.
    """
    count = len(truth)
    right, down = (dice.uniform(count) * dice.is_true(count, share) for _ in range(2))
    shown = [_shifted(p, bicubic(right), bicubic(down)) for p in (estimate, picture)]
    return shown[0], shown[1], _shifted(truth, lanczos(right), lanczos(down))


def bicubic(parts: Tensor) -> Tensor:
    """Weights (B, 4) of the pixels at -1, 0, 1, 2 for the positions `parts` (B), 0 to 1."""
    a = _BICUBIC
    x = (parts[:, None] - torch.arange(-1, 3, device=parts.device)).abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x < 1, near, far)


def lanczos(parts: Tensor) -> Tensor:
    """Weights (B, 12) of the pixels at -5 to 6 for the positions `parts` (B), 0 to 1."""
    distance = torch.arange(1 - _REACH, _REACH + 1, device=parts.device) - parts[:, None]
    weights = torch.sinc(distance) * torch.sinc(distance / _REACH)
    return weights / weights.sum(1, keepdim=True)


def _shifted(pictures: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Weighted sums of neighbours, wherever all pixels that `lanczos` needs exist.

    In single precision: truths rounded to half precision would be no truths.
    """
    count, channels, height, width = pictures.shape
    spare = _REACH - across.shape[1] // 2
    inner = pictures[..., spare : height - spare, spare : width - spare]
    flat = inner.float().reshape(1, count * channels, *inner.shape[2:])
    with torch.autocast(flat.device.type, enabled=False):
        for weights, form in ((across, (1, -1)), (down, (-1, 1))):
            kernel = weights.repeat_interleave(channels, 0).view(count * channels, 1, *form)
            flat = functional.conv2d(flat, kernel, groups=count * channels)
    return flat.view(count, channels, *flat.shape[2:])
