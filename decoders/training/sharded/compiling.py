"""Networks through torch.compile, where it can run."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn


def compiled(
    networks: Mapping[str, nn.Module], device: torch.device, tell: Callable[..., None]
) -> dict[str, Any]:
    """The networks, compiled; as they are where something trivial cannot be, which is told."""
    if why := _why_not(device):
        tell("eager", why=f"torch.compile cannot run here: {why}")
        return dict(networks)
    return {name: torch.compile(network) for name, network in networks.items()}


def _why_not(device: torch.device) -> str:
    """What keeps it from compiling, as a missing C++ compiler does; "" where nothing does."""

    def add_one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    try:
        torch.compile(add_one)(torch.zeros(8, device=device))
    except Exception as error:  # noqa: BLE001 - a compiler's may be anything
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return ""
