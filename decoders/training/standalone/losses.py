"""What training minimises: distances of estimate and truth, both (B, 3, H, W) in [-1, 1]."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from gsvc.decoders.keyframes.compact.restorer import detail_bands
from gsvc.decoders.training.standalone.alex import AlexDistance
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.efficient import EfficientFeatures
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.views import random_views

_LUMA_SHARES = (0.299, 0.587, 0.114)
_FLAT = 0.5
"""Root mean square of a band, in levels of 0-255 luma, below which a place counts as flat."""
_WINDOW = 15
_MOST_GAIN = 3.0
_COARSE = 4
_SHORTEST = 1e-3


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
        """`networks`: of a pack; `alex` is needed, `features` for the term of that name."""
        self._alex = on_device(AlexDistance(networks["alex"], merged=True), device)
        self._features = None
        if "features" in networks:
            self._features = on_device(EfficientFeatures(networks["features"]), device)

    def terms(self, seen: Seen, weights: Mapping[str, float], dice: Dice) -> dict[str, Tensor]:
        """Those of `weights` that are not 0 and are distances of pictures, not weighted yet."""
        estimate, truth = seen.estimate.float(), seen.truth.float()
        wanted = {name for name, weight in weights.items() if weight}
        terms = {name: term for name, term in seen.extra.items() if name in wanted}
        if "coarse" in wanted:
            terms["coarse"] = charbonnier(estimate, truth)
        if "texture" in wanted:
            terms["texture"] = texture_distance(estimate, seen.picture.float(), truth)
        if wanted & {"perceptual", "features"}:
            one, other = random_views(estimate, truth, dice)
            if "perceptual" in wanted:
                terms["perceptual"] = self._alex(one, other).mean()
            if "features" in wanted and self._features is not None:
                terms["features"] = _feature_distance(self._features(one), self._features(other))
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


def _feature_distance(ones: list[Tensor], others: list[Tensor]) -> Tensor:
    """Mean squared distance of unit-length features, mean of the depths."""
    distances = []
    for one, other in zip(ones, others, strict=True):
        pair = (functional.normalize(x.float(), dim=1, eps=_SHORTEST) for x in (one, other))
        a, b = pair
        distances.append((a - b).square().sum(1).mean())
    return torch.stack(distances).mean()
