"""What the restorer's training minimises, of pictures (B, 3, H, W) in [-1, 1]: one value a sample.

Fidelity is a distance of means at several scales and of structure at half and quarter size. Texture
is Wasserstein distortion (Qiu et al., "Wasserstein Distortion: Unifying Fidelity and Realism", CISS
2024; Balle et al., "Good, Cheap, and Fast", CVPR 2025): features need agree only in their mean and
deviation around each place, and the width of "around" leads from fidelity to texture. The judges,
CVVDP and ST-LPIPS VGG, are in no term here.
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsvc.decoders.keyframes.restorer.network import detail_bands

FROZEN = (
    "convolutions.0.weight",
    "convolutions.0.bias",
    "convolutions.1.weight",
    "convolutions.1.bias",
)
"""The weights of AlexNet that are needed, by the names of `AlexDistance`."""
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_LUMA = 0.299, 0.587, 0.114
_SPREAD, _REACH = 1.5, 5
_MEANS = 0, 1, 2
_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2
WIDTHS = 5
"""Widths of Wasserstein distortion: 1, 2, 4, 8, 16 places."""


def luma(pictures: Tensor) -> Tensor:
    """BT.601 luma, 0 to 1: (B, 1, H, W)."""
    return (pictures * pictures.new_tensor(_LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True) / 2 + 0.5


def means_distance(estimate: Tensor, truth: Tensor, levels: Collection[int]) -> Tensor:
    """Charbonnier distance of means over squares of 2^n pixels, n of `levels`."""
    difference, terms = estimate - truth, []
    for level in range(max(levels) + 1):
        difference = functional.avg_pool2d(difference, 2) if level else difference
        if level in levels:
            terms.append((difference.square() + 1e-5).sqrt().mean((1, 2, 3)))
    return torch.stack(terms).mean(0)


def structural(estimate: Tensor, truth: Tensor) -> Tensor:
    """SSIM (Wang et al., 2004) of luma (B, 1, H, W), 0 to 1."""
    maps = [estimate, truth, estimate.square(), truth.square(), estimate * truth]
    a, b, aa, bb, ab = _windowed(torch.cat(maps, 1)).unbind(1)
    numerator = (2 * a * b + _SSIM_C1) * (2 * (ab - a * b) + _SSIM_C2)
    denominator = (a * a + b * b + _SSIM_C1) * (aa - a * a + bb - b * b + _SSIM_C2)
    return (numerator / denominator).mean((1, 2))


def _windowed(maps: Tensor) -> Tensor:
    channels = maps.shape[1]
    x = torch.arange(-_REACH, _REACH + 1, device=maps.device) / _SPREAD
    kernel = torch.exp(-0.5 * x.square())
    kernel = (kernel / kernel.sum()).to(maps).expand(channels, 1, 1, -1)
    maps = functional.conv2d(maps, kernel, groups=channels)
    return functional.conv2d(maps, kernel.transpose(2, 3), groups=channels)


def fidelity(estimate: Tensor, truth: Tensor) -> Tensor:
    """Of pictures at half size: means at several scales, structure there and at quarter size."""
    one, other = luma(estimate), luma(truth)
    half = structural(one, other)
    quarter = structural(functional.avg_pool2d(one, 2), functional.avg_pool2d(other, 2))
    return 5 * means_distance(estimate, truth, _MEANS) + 2 - half - quarter


def psnr(estimate: Tensor, truth: Tensor) -> Tensor:
    """Of luma, in dB."""
    error = (luma(estimate.clamp(-1, 1)) - luma(truth)).square().mean((1, 2, 3))
    return -10 * torch.log10(error.clamp(min=1e-10))


class WassersteinDistortion(nn.Module):
    """Of the first two layers of AlexNet, frozen, and of bands of luma's detail."""

    shift: Tensor
    scale: Tensor

    def __init__(self, state: dict[str, Tensor]) -> None:
        """`state`: has `FROZEN`, of any type."""
        super().__init__()
        self.first = nn.Conv2d(3, 64, 11, stride=2, padding=2)
        self.second = nn.Conv2d(64, 192, 5, stride=2, padding=2)
        for number, layer in enumerate((self.first, self.second)):
            layer.weight = nn.Parameter(state[f"convolutions.{number}.weight"].float())
            layer.bias = nn.Parameter(state[f"convolutions.{number}.bias"].float())
        self.register_buffer("shift", torch.tensor(_SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(_SCALE).view(1, 3, 1, 1), persistent=False)
        self.eval().requires_grad_(False)

    def forward(self, estimate: Tensor, truth: Tensor, width: Tensor) -> Tensor:
        """Distances (B,). `width`: (B,), logarithm to base 2, 0 to `WIDTHS` - 1."""
        with torch.no_grad():
            goals = self._features(truth)
        pairs = zip(self._features(estimate), goals, strict=True)
        return torch.stack([_distortion(one, goal, width) for one, goal in pairs]).mean(0)

    def _features(self, pictures: Tensor) -> list[Tensor]:
        first = functional.relu(self.first((pictures - self.shift) / self.scale))
        second = functional.relu(self.second(functional.max_pool2d(first, 3, 2)))
        return [*detail_bands(luma(pictures)), first, second]


def _distortion(one: Tensor, goal: Tensor, width: Tensor) -> Tensor:
    """Squared differences of local means and deviations, in units of the goal's energy."""
    energy = goal.square().mean((0, 2, 3), keepdim=True) + 1e-6
    one, goal = one / energy.sqrt(), goal / energy.sqrt()
    means, squares = [one, goal], [one.square(), goal.square()]
    terms = [(one - goal).square().mean((1, 2, 3))]
    for _ in range(1, WIDTHS):
        if min(means[0].shape[2:]) >= 4:
            means, squares = [[functional.avg_pool2d(x, 2) for x in xs] for xs in (means, squares)]
            deviations = [_deviation(*pair) for pair in zip(means, squares, strict=True)]
            term = (means[0] - means[1]).square() + (deviations[0] - deviations[1]).square()
            terms.append(term.mean((1, 2, 3)))
        else:
            terms.append(terms[-1])
    near = (1 - (width - torch.arange(WIDTHS, device=width.device)[:, None]).abs()).clamp(min=0)
    return (near * torch.stack(terms)).sum(0)


def _deviation(mean: Tensor, square: Tensor) -> Tensor:
    # The root of zero has no gradient.
    return ((square - mean.square()).clamp(min=0) + 1e-3).sqrt()
