"""An adversary that tells patches of true pictures from patches of restored ones.

A relativistic hinge loss of pairs (A. Jolicoeur-Martineau, ICLR 2019) over overlapping patches (P.
Isola et al., CVPR 2017), with spectral normalisation (T. Miyato et al., ICLR 2018): its gradient
stays bounded without a term that would cost a second pass.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm


class PatchCritic(nn.Module):
    """Convolutions that see 38 pixels. Given what the picture was before, besides the picture."""

    def __init__(self, channels: int = 48) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 6
        for outputs, stride in ((channels, 2), (2 * channels, 2), (4 * channels, 2)):
            layers += [_bounded(inputs, outputs, stride), nn.LeakyReLU(0.2)]
            inputs = outputs
        self.layers = nn.Sequential(*layers, _bounded(inputs, 1, 1))

    def forward(self, shown: Tensor, picture: Tensor) -> Tensor:
        """How true each patch looks, (B, 1, H / 8, W / 8); `shown`, `picture`: (B, 3, H, W)."""
        verdict: Tensor = self.layers(torch.cat([shown, picture], 1))
        return verdict


def critic_loss(true: Tensor, restored: Tensor) -> Tensor:
    """What the critic minimises, given its verdicts on the truth and on the estimate of it."""
    return functional.relu(1 - (true - restored)).mean()


def restorer_loss(true: Tensor, restored: Tensor) -> Tensor:
    """What the restorer minimises."""
    return functional.relu(1 - (restored - true)).mean()


def _bounded(inputs: int, outputs: int, stride: int) -> nn.Module:
    return spectral_norm(nn.Conv2d(inputs, outputs, 2 + stride if stride > 1 else 3, stride, 1))
