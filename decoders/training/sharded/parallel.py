"""How a network is spread over processes."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from gsvc.codec.errors import ConfigError
from gsvc.decoders.training.sharded.split import pairs_of, split
from gsvc.decoders.training.standalone.workers import processes, rank

LAYOUTS = {
    "one": "a process",
    "replicas": "the whole network in each process",
    "fsdp": "parameters, gradients and optimiser in parts (FSDP2)",
    "tensor": "convolutions of residual blocks in parts (DTensor); all see the same samples",
}


def data_part(layout: str) -> tuple[int, int]:
    """Which part of a batch this process has, and of how many."""
    return (0, 1) if layout == "tensor" else (rank(), processes())


def spread(networks: nn.ModuleDict, layout: str, device: torch.device) -> None:
    """Spread networks over processes as a layout has it. Raises ConfigError where none can be."""
    if layout == "fsdp":
        shard(networks, device)
    if layout == "tensor":
        if not any(pairs_of(network) for network in networks.values()):
            raise ConfigError("--layout tensor: these networks have no blocks that can be split")
        anything: Any = networks
        anything.to(memory_format=torch.contiguous_format)
        mesh = init_device_mesh(device.type, (processes(),))
        for network in networks.values():
            split(network, mesh)


def blocks_of(network: nn.Module) -> Iterator[nn.Module]:
    """The outermost repeated blocks: what is gathered, and recomputed, at a time."""
    for child in network.children():
        if isinstance(child, nn.ModuleList | nn.Sequential):
            inner = [each for each in child if any(True for _ in each.children())]
            yield from inner
            if inner:
                continue
        yield from blocks_of(child)


def recompute(networks: nn.ModuleDict) -> None:
    """Keep no activations within blocks: they are computed again on the way back."""
    for network in networks.values():
        for block in blocks_of(network):
            checkpoint(block)


def shard(networks: nn.ModuleDict, device: torch.device) -> None:
    """Give each process its part of every parameter.

    On a GPU parts are gathered as bfloat16, and gradients are summed in single precision.
    """
    mesh = init_device_mesh(device.type, (processes(),))
    policy = MixedPrecisionPolicy()
    if device.type == "cuda":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    anything: Any = networks
    anything.to(memory_format=torch.contiguous_format)  # FSDP2 knows no other
    for network in networks.values():
        for block in blocks_of(network):
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(network, mesh=mesh, mp_policy=policy)
