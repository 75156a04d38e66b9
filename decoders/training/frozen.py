"""The weights of the networks that a pack carries, from the packages that this machine has."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from gsvc.decoders.interpolation.rife import load_rife
from gsvc.decoders.keyframes.priors.prior_drawings import load_prior
from gsvc.eval.metrics.perceptual import load_network

State = dict[str, Tensor]
_COLOURS = 3


def frozen_networks(names: Iterable[str]) -> dict[str, State]:
    """Weights by the names of a pack and of the classes of `standalone`.

    They are float16, except those of the first layers and what is no matrix (biases), which are few
    and matter most. `names`: of `alex` (AlexDistance), `animevideov3` (SRVGGNetCompact), `x4plus`
    (RRDBNet), `rife` (IFNet). Raises MissingDependencyError and MissingModelError where what holds
    the weights is not installed.
    """
    return {name: {k: _stored(v) for k, v in _LOADERS[name]().items()} for name in names}


def _stored(value: Tensor) -> Tensor:
    is_many = value.dim() > 1 and value.shape[1] != _COLOURS
    return value.detach().to(torch.float16 if is_many else torch.float32)


def alex_state() -> State:
    """ST-LPIPS AlexNet by the names of `AlexDistance`, in single precision."""
    network: Any = load_network("alex")
    layers: list[Any] = [x for x in network.net.modules() if isinstance(x, torch.nn.Conv2d)]
    state = {}
    for number, (layer, head) in enumerate(zip(layers, network.lins, strict=True)):
        state[f"convolutions.{number}.weight"] = layer.weight
        state[f"convolutions.{number}.bias"] = layer.bias
        state[f"heads.{number}"] = head.model[-1].weight.flatten()
    return state


_LOADERS: Mapping[str, Callable[[], State]] = {
    "alex": alex_state,
    "animevideov3": lambda: load_prior("animevideov3").state_dict(),
    "x4plus": lambda: load_prior("x4plus").state_dict(),
    "rife": lambda: load_rife().state_dict(),
}
