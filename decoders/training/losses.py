"""What training minimises: distances between estimated and true key pictures, (B, 3, H, W) in [-1, 1]."""

from pathlib import Path
from typing import Any

import torch
from numpy.random import Generator
from torch import Tensor, nn
from torch.nn import functional

from gsvc.codec.errors import MissingDependencyError

_LUMA = (0.299, 0.587, 0.114)
_FLAT = 3.0
"""Gradient of 0-255 luma below which texture counts for little. Much lower than the encoder's: grain of one gray level
raises ST-LPIPS VGG by 7 %, and AlexNet does not see it."""
_WINDOW = 7
_PLACED = 0.1
_DIRECTIONS = (
    ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),
    ((-1, -2, -1), (0, 0, 0), (1, 2, 1)),
    ((0, 1, 2), (-1, 0, 1), (-2, -1, 0)),
    ((2, 1, 0), (1, 0, -1), (0, -1, -2)),
)


def charbonnier(estimate: Tensor, truth: Tensor) -> Tensor:
    """Mean absolute difference, smooth at zero."""
    return ((estimate - truth).square() + 1e-5).sqrt().mean()


def texture_distance(estimate: Tensor, truth: Tensor) -> Tensor:
    """How much local gradients are off, in proportion to what the truth has there; at full and at half size.

    The mean of |log ratio| of their energies, which asks for as much detail in the same directions, and of their
    difference over the truth's energy, which asks for it in the same place. Unlike a network's distance no lattice and
    no noise of a certain kind meets it.
    """
    one, other = (127.5 * _luma(pictures) for pictures in (estimate, truth))
    scales = (one, other), tuple(functional.avg_pool2d(x, 2) for x in (one, other))
    return torch.stack([_at_one_scale(a, b) for a, b in scales]).mean()


def _at_one_scale(estimate: Tensor, truth: Tensor) -> Tensor:
    ours, theirs = _gradients(estimate), _gradients(truth)
    energy, goal = _energy(ours), _energy(theirs)
    ratio = 0.5 * torch.log(energy / goal).abs()
    error = _energy(ours - theirs, floor=0.1)
    return ratio.mean() + _PLACED * (error / goal).sqrt().mean()


def _luma(pictures: Tensor) -> Tensor:
    return (pictures * pictures.new_tensor(_LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _gradients(luma: Tensor) -> Tensor:
    kernels = luma.new_tensor(_DIRECTIONS)[:, None]
    return functional.conv2d(functional.pad(luma, (1, 1, 1, 1), mode="reflect"), kernels)


def _energy(gradients: Tensor, floor: float = _FLAT) -> Tensor:
    return functional.avg_pool2d(gradients.square(), _WINDOW, stride=_WINDOW // 3) + floor**2


class PerceptualDistance:
    """ST-LPIPS AlexNet (Ghildyal & Liu, ECCV 2022) of randomly changed pairs, as in E-LPIPS (Kettunen et al. 2019):
    a network that is fitted to one fixed view of AlexNet learns lattices which that view does not see."""

    def __init__(self, device: torch.device) -> None:
        self._network = _alexnet().to(device)

    def __call__(self, estimate: Tensor, truth: Tensor, rng: Generator) -> Tensor:
        """Mean distance."""
        one, other = random_views(estimate, truth, rng)
        distances: Tensor = self._network(one, other.detach())
        return distances.float().mean()


def random_views(estimate: Tensor, truth: Tensor, rng: Generator) -> tuple[Tensor, Tensor]:
    """Both changed alike: scaled by 0.5 to 2, cut at any pixel, turned, colours exchanged, brighter or darker."""
    pair = torch.cat([estimate, truth])
    side = pair.shape[-1]
    scale = float(2.0 ** rng.uniform(-1, 1))
    seen = max(_LEAST_SIDE, min(side, round(side / scale))) - int(rng.integers(_SHIFTS))
    y, x = (int(rng.integers(side - seen + 1)) for _ in range(2))
    pair = pair[..., y : y + seen, x : x + seen]
    goal = max(_LEAST_SIDE, min(side, round(seen * scale)))
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


_LEAST_SIDE = 64
_SHIFTS = 8


def _alexnet() -> nn.Module:
    """The network from the package's own file; nothing is downloaded."""
    try:
        import stlpips_pytorch
        from stlpips_pytorch import stlpips
    except ImportError as error:
        raise MissingDependencyError(
            f"the perceptual loss cannot be imported ({error}): pip install 'gsvc[eval]'"
        ) from error
    network = stlpips.LPIPS(net="alex", variant="shift_tolerant", pretrained=False, verbose=False)
    folder = Path(stlpips_pytorch.__file__).parent / "weights/vST0.0"
    weights = torch.load(folder / "alex_shift_tolerant.pth", map_location="cpu", weights_only=True)
    # strict=False: the file carries more than the network names, never less; `eval.metrics` proves it.
    network.load_state_dict(weights, strict=False)
    _merge_first_layers(network.net.slice1)
    ready: nn.Module = network.eval().requires_grad_(False).to(memory_format=torch.channels_last)
    return ready


def _merge_first_layers(layers: Any) -> None:
    """Replace a convolution and the blur after it, both linear, by one strided convolution.

    A third of the network's time; distances change by less than 1 %, at the border only.
    """
    first, blur = layers[0], layers[1]
    kernel = blur.filt[:1]
    weight = functional.conv2d(
        first.weight.flatten(0, 1)[:, None], kernel.flip(2, 3), padding=kernel.shape[-1] - 1
    )
    weight = weight.reshape(*first.weight.shape[:2], *weight.shape[2:])
    merged = nn.Conv2d(
        weight.shape[1],
        weight.shape[0],
        weight.shape[-1],
        stride=blur.stride,
        padding=first.padding[0] + blur.pad_sizes[0],
    )
    merged.load_state_dict({"weight": weight, "bias": first.bias})
    layers[0], layers[1] = merged, nn.Identity()
