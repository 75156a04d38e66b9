"""A picture's detail in bands, for the network and for the loss that trains it."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

_SPREADS = (0.7, 1.5, 3.0)
"""Standard deviations, in pixels, of the Gaussians around the bands. Finer detail stays as it is:
in a decoded picture most of it is wrong; raised, it makes ST-LPIPS VGG worse by 7 %."""
BANDS = len(_SPREADS) - 1


def detail_bands(pictures: Tensor) -> list[Tensor]:
    """What lies between Gaussians, finest first: `BANDS` tensors like `pictures`, (B, C, H, W)."""
    return all_bands(pictures)[1:-1]


def all_bands(pictures: Tensor) -> list[Tensor]:
    """`detail_bands` between what is finer and what is coarser: their sum is `pictures`."""
    levels = [pictures, *(_blurred(pictures, spread) for spread in _SPREADS)]
    return [*(finer - coarser for finer, coarser in pairwise(levels)), levels[-1]]


def _blurred(pictures: Tensor, spread: float) -> Tensor:
    kind = pictures.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        # Rounded to half precision, it would differ from the picture by more than faint detail.
        with torch.autocast(kind, enabled=False):
            return _blurred(pictures.float(), spread)
    reach, channels = round(3 * spread), pictures.shape[1]
    x = torch.arange(-reach, reach + 1, device=pictures.device) / spread
    kernel = torch.exp(-0.5 * x.square())
    kernel = (kernel / kernel.sum()).to(pictures).expand(channels, 1, 1, -1)
    pictures = functional.pad(pictures, (reach, reach, reach, reach), mode="replicate")
    pictures = functional.conv2d(pictures, kernel, groups=channels)
    return functional.conv2d(pictures, kernel.transpose(2, 3), groups=channels)
