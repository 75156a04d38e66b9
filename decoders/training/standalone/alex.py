"""ST-LPIPS on AlexNet as a plain network: the perceptual distance that training minimises.

A. Ghildyal and F. Liu, "Shift-tolerant Perceptual Similarity Metric", ECCV 2022; the same network
as `gsvc.eval.metrics.shift_tolerant` has from its package.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_ALEX_SHIFT, _ALEX_SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_ALEX_CHANNELS = (64, 192, 384, 256, 256)
_LEAST_LENGTH = 1e-10


class AlexDistance(nn.Module):
    """Weighted squared difference of unit-length features of five layers, mean over positions.

    `merged`: whether the first convolution and the blur after it, both linear, are one strided
    convolution. That takes a third less time and changes distances by less than 1 %, at the border
    only.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, state: dict[str, Tensor], merged: bool = False) -> None:
        """`state`: weights by the names of this class, of any type (see `frozen_networks`)."""
        super().__init__()
        first, second, third, fourth, fifth = _ALEX_CHANNELS
        self.convolutions = nn.ModuleList(
            [
                nn.Conv2d(3, first, 11, padding=2),
                nn.Conv2d(first, second, 5, padding=2),
                nn.Conv2d(second, third, 3, padding=1),
                nn.Conv2d(third, fourth, 3, padding=1),
                nn.Conv2d(fourth, fifth, 3, padding=1),
            ]
        )
        self.heads = nn.ParameterList(torch.empty(channels) for channels in _ALEX_CHANNELS)
        self.load_state_dict({name: value.float() for name, value in state.items()})
        if merged:
            self.convolutions[0] = _with_blur(self.convolutions[0])
        self.merged = merged
        self.register_buffer("shift", torch.tensor(_ALEX_SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(_ALEX_SCALE).view(1, 3, 1, 1), persistent=False)
        self.eval().requires_grad_(False)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Distances (B,) of pictures (B, 3, H, W) in [-1, 1], sides of at least 32."""
        distances = torch.zeros(len(one), device=one.device)
        layers = zip(self.heads, self._layers(one), self._layers(other), strict=True)
        for head, a, b in layers:
            squares = (_of_length_one(a) - _of_length_one(b)).square()
            distances = distances + (squares * head.view(1, -1, 1, 1)).sum(1).mean((1, 2))
        return distances

    def _layers(self, pictures: Tensor) -> list[Tensor]:
        first, second, third, fourth, fifth = self.convolutions
        x = first((pictures - self.shift) / self.scale)
        layers = [functional.relu(x if self.merged else _halved(x))]
        layers.append(functional.relu(second(_halved(functional.max_pool2d(layers[-1], 3, 1)))))
        layers.append(functional.relu(third(_halved(functional.max_pool2d(layers[-1], 3, 1)))))
        layers.append(functional.relu(fourth(layers[-1])))
        layers.append(functional.relu(fifth(layers[-1])))
        return layers


def _of_length_one(layer: Tensor) -> Tensor:
    layer = layer.float()
    squares = layer.square().sum(1, keepdim=True)
    # The root of zero has no gradient.
    return layer / (squares.clamp(min=_LEAST_LENGTH**2).sqrt() + _LEAST_LENGTH)


def _blur_kernel() -> Tensor:
    line = torch.tensor([0.25, 0.5, 0.25])
    return line[:, None] * line


def _halved(x: Tensor) -> Tensor:
    """BlurPool (R. Zhang, ICML 2019): 3x3, stride 2, borders reflected by 2 pixels."""
    kernel = _blur_kernel().to(x).expand(x.shape[1], 1, 3, 3)
    padded = functional.pad(x, (2, 2, 2, 2), mode="reflect")
    return functional.conv2d(padded, kernel, stride=2, groups=x.shape[1])


def _with_blur(first: Any) -> nn.Conv2d:
    """One convolution that does what `first` and the blur after it do, but at the border."""
    spread = first.weight.detach().flatten(0, 1)[:, None]
    weight = functional.conv2d(spread, _blur_kernel()[None, None], padding=2)
    weight = weight.reshape(*first.weight.shape[:2], *weight.shape[2:])
    merged = nn.Conv2d(3, len(weight), weight.shape[-1], stride=2, padding=first.padding[0] + 2)
    merged.load_state_dict({"weight": weight, "bias": first.bias})
    return merged
