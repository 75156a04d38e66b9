"""Losses, and the frozen AlexNet behind one of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsvc.decoders.keyframes.restorer.network import detail_bands
from gsvc.decoders.training.draws import Rng
from gsvc.decoders.training.tensors import on_device

_ALEX_SHIFT, _ALEX_SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_ALEX_CHANNELS, _ALEX_SIDES = (64, 192, 384, 256, 256), (11, 5, 3, 3, 3)
_LEAST_LENGTH = 1e-10


class AlexDistance(nn.Module):
    """Weighted squared difference of unit-length features of five layers, mean over positions.

    `merged`: whether the first convolution and the blur after it, both linear, are one strided
    convolution. That takes a third less time and changes distances by under 1 %, at borders.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, state: dict[str, Tensor], merged: bool = False) -> None:
        """`state`: weights by the names of this class, of any type (see `frozen_networks`)."""
        super().__init__()
        layers = zip((3, *_ALEX_CHANNELS), _ALEX_CHANNELS, _ALEX_SIDES, strict=False)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(*layer, padding=min(2, layer[-1] // 2)) for layer in layers
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


VIEW_SIDE = 96
_MOST_OCTAVES = 1.6
_UNTOUCHED = 0.25
"""Share of the views at whole pixels and natural size: what is as fine as a pixel shows there."""
_ORDERS = torch.tensor([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])


def random_views(estimate: Tensor, truth: Tensor, rng: Rng) -> tuple[Tensor, Tensor]:
    """Each pair under its own random change: (B, 3, V, V), V at most VIEW_SIDE.

    Enlarged up to three times, cut at any pixel, turned, colours exchanged, made brighter or
    darker. `estimate` and `truth`: (B, 3, S, S) in [-1, 1].
    """
    count, side = len(truth), truth.shape[-1]
    grid = _grid(rng, count, side, min(VIEW_SIDE, side))
    orders = _ORDERS.to(truth.device)[rng.below(len(_ORDERS), count)]
    gain = 0.7 + 0.3 * rng.uniform(count, 1, 1, 1)
    offset = 0.4 * rng.uniform(count, 1, 1, 1) - 0.2
    views = []
    for pictures in (estimate, truth):
        view = functional.grid_sample(pictures.float(), grid, "bilinear", "border", False)
        view = view.gather(1, orders.view(count, 3, 1, 1).expand_as(view))
        views.append(view * gain + offset)
    return views[0], views[1]


def _grid(rng: Rng, count: int, side: int, goal: int) -> Tensor:
    """For grid_sample, (B, goal, goal, 2): where each pixel of the views comes from."""
    zoom = 2 ** (rng.uniform(count) * _MOST_OCTAVES)
    zoom = torch.where(rng.is_true(count, _UNTOUCHED), 1.0, zoom)
    room = side - goal / zoom
    lines = []
    for _ in "yx":
        # At whole pixels; so a view of natural size is no average of neighbours.
        start = (rng.uniform(count) * (room + 1)).floor().minimum(room)
        steps = torch.arange(goal, device=rng.device) + 0.5
        place = start[:, None] + steps / zoom[:, None]
        place = torch.where(rng.is_true(count)[:, None], place, place.flip(1))
        lines.append(place / side * 2 - 1)
    down = lines[0][:, :, None].expand(count, goal, goal)
    across = lines[1][:, None, :].expand(count, goal, goal)
    swapped = rng.is_true(count).view(-1, 1, 1)
    y, x = (torch.where(swapped, part.transpose(1, 2), part) for part in (down, across))
    return torch.stack([x, y], -1)


_LUMA_SHARES = (0.299, 0.587, 0.114)
_FLAT = 0.5
"""Root mean square of a band, in levels of 0-255 luma, below which a place counts as flat."""
_WINDOW = 15
_MOST_GAIN = 3.0
_COARSE = 4


@dataclass(frozen=True)
class Seen:
    """What a task shows for a batch, and what should be seen there: (B, 3, H, W) in [-1, 1]."""

    estimate: Tensor
    picture: Tensor
    """As decoded or rendered: what the estimate began from."""
    truth: Tensor
    boldness: float = 1.0
    """Times the adversary's weight in this batch."""
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Terms of the task's own, by name."""


class Losses:
    """The terms that several tasks have, with the frozen networks that they need."""

    def __init__(self, networks: Mapping[str, dict[str, Tensor]], device: torch.device) -> None:
        """`networks`: of a pack; `alex` is needed."""
        self._alex = on_device(AlexDistance(networks["alex"], merged=True), device)

    def terms(self, seen: Seen, weights: Mapping[str, float], rng: Rng) -> dict[str, Tensor]:
        """Those of `weights` that are not 0 and are distances of pictures, not weighted yet."""
        estimate, truth = seen.estimate.float(), seen.truth.float()
        wanted = {name for name, weight in weights.items() if weight}
        terms = {name: term for name, term in seen.extra.items() if name in wanted}
        if "coarse" in wanted:
            terms["coarse"] = charbonnier(estimate, truth)
        if "texture" in wanted:
            terms["texture"] = texture_distance(estimate, seen.picture.float(), truth)
        if "perceptual" in wanted:
            terms["perceptual"] = self._alex(*random_views(estimate, truth, rng)).mean()
        return terms


def charbonnier(estimate: Tensor, truth: Tensor) -> Tensor:
    """Mean absolute difference of means over 4x4 pixels, smooth at zero.

    A distance of single pixels rewards damping the finest detail, which cannot be known: networks
    trained with it were 10 % worse in ST-LPIPS VGG than pictures as decoded, and made little use of
    a prior's drawings (see docs/logs/training.md).
    """
    coarse, goal = (functional.avg_pool2d(x, _COARSE) for x in (estimate, truth))
    return ((coarse - goal).square() + 1e-5).sqrt().mean()


def texture_distance(estimate: Tensor, picture: Tensor, truth: Tensor) -> Tensor:
    """Difference in the local strength of detail between estimate and truth, in two bands.

    Only detail of the decoded `picture` or of the truth counts, whichever is more, so that a
    lattice or noise does not. The unit is the strength of the picture's detail.
    """
    bands = (detail_bands(127.5 * luma_of(pictures)) for pictures in (estimate, picture, truth))
    return torch.stack([_off(*one) for one in zip(*bands, strict=True)]).mean()


def _off(estimate: Tensor, picture: Tensor, truth: Tensor) -> Tensor:
    own, goal = _local(picture * picture).sqrt(), _local(truth * truth).sqrt()
    strength = torch.maximum(_local(estimate * picture) / own, _local(estimate * truth) / goal)
    return (strength / own - (goal / own).clamp(max=_MOST_GAIN)).abs().mean()


def _local(products: Tensor) -> Tensor:
    return functional.avg_pool2d(products, _WINDOW, stride=_WINDOW // 3) + _FLAT**2


def luma_of(pictures: Tensor) -> Tensor:
    """BT.601 luma of RGB (B, 3, H, W): (B, 1, H, W)."""
    return (pictures * pictures.new_tensor(_LUMA_SHARES).view(1, 3, 1, 1)).sum(1, keepdim=True)
