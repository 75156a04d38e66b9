"""What training minimises: distances of estimate and truth, both (B, 3, H, W) in [-1, 1]."""

from typing import Any

import torch
from numpy.random import Generator
from torch import Tensor, nn
from torch.nn import functional

from gsvc.decoders.refiners.compact.bands import detail_bands
from gsvc.eval.metrics.faster import blurred_weight
from gsvc.eval.metrics.shift_tolerant import load_network

_LUMA = (0.299, 0.587, 0.114)
_FLAT = 0.5
"""Root mean square of a band, in levels of 0-255 luma, below which a place counts as flat."""
_WINDOW = 15
_MOST_GAIN = 3.0
_COARSE = 4


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
    bands = (detail_bands(127.5 * _luma(pictures)) for pictures in (estimate, picture, truth))
    return torch.stack([_off(*one) for one in zip(*bands, strict=True)]).mean()


def _off(estimate: Tensor, picture: Tensor, truth: Tensor) -> Tensor:
    own, goal = _local(picture * picture).sqrt(), _local(truth * truth).sqrt()
    strength = torch.maximum(_local(estimate * picture) / own, _local(estimate * truth) / goal)
    return (strength / own - (goal / own).clamp(max=_MOST_GAIN)).abs().mean()


def _local(products: Tensor) -> Tensor:
    return functional.avg_pool2d(products, _WINDOW, stride=_WINDOW // 3) + _FLAT**2


def _luma(pictures: Tensor) -> Tensor:
    return (pictures * pictures.new_tensor(_LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)


class PerceptualDistance:
    """ST-LPIPS AlexNet (Ghildyal and Liu, ECCV 2022) of randomly changed pairs.

    As in E-LPIPS (Kettunen et al., 2019): a network fitted to a single view of AlexNet learns
    lattices that this view does not see.
    """

    def __init__(self, device: torch.device) -> None:
        network: Any = load_network("alex")
        _merge_first_layers(network.net.slice1)
        self._network = network.requires_grad_(False).to(device, memory_format=torch.channels_last)

    def __call__(self, estimate: Tensor, truth: Tensor, rng: Generator) -> Tensor:
        """Mean distance."""
        one, other = random_views(estimate, truth, rng)
        distances: Tensor = self._network(one, other.detach())
        return distances.float().mean()


def random_views(estimate: Tensor, truth: Tensor, rng: Generator) -> tuple[Tensor, Tensor]:
    """Both pictures under one random change.

    They are enlarged up to three times, cut at any pixel, turned, their colours exchanged, made
    brighter or darker. AlexNet's first layer has a stride of four pixels and misses what VGG sees;
    with enlarged views a network comes nearer to the source for both (see docs/logs/training.md).
    """
    pair = torch.cat([estimate, truth])
    side = pair.shape[-1]
    scale = float(2.0 ** rng.uniform(0, _MOST_OCTAVES))
    seen = max(_LEAST_SIDE, min(side, round(side / scale))) - int(rng.integers(_SHIFTS))
    y, x = (int(rng.integers(side - seen + 1)) for _ in range(2))
    pair = pair[..., y : y + seen, x : x + seen]
    goal = max(_LEAST_SIDE, min(_MOST_SIDE, round(seen * scale)))
    if goal != seen:
        shrinks = goal < seen
        pair = functional.interpolate(pair, (goal, goal), mode="bilinear", antialias=shrinks)
    if rng.random() < 0.5:
        pair = pair.flip(3)
    if rng.random() < 0.5:
        pair = pair.flip(2)
    if rng.random() < 0.5:
        pair = pair.transpose(2, 3)
    pair = pair[:, torch.from_numpy(rng.permutation(3))]
    pair = pair * float(rng.uniform(0.7, 1.0)) + float(rng.uniform(-0.2, 0.2))
    one, other = pair.chunk(2)
    return one, other


_MOST_OCTAVES = 1.6
_LEAST_SIDE, _MOST_SIDE = 64, 144
_SHIFTS = 8


def _merge_first_layers(layers: Any) -> None:
    """Replace a convolution and the blur after it, both linear, by one strided convolution.

    Saves a third of the network's time and changes distances by less than 1 %, at the border only.
    """
    first, blur = layers[0], layers[1]
    weight = blurred_weight(first, blur)
    merged = nn.Conv2d(
        weight.shape[1],
        weight.shape[0],
        weight.shape[-1],
        stride=blur.stride,
        padding=first.padding[0] + blur.pad_sizes[0],
    )
    merged.load_state_dict({"weight": weight, "bias": first.bias})
    layers[0], layers[1] = merged, nn.Identity()
