"""How a network is spread over processes."""

import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.sharded.split import pairs_of, split
from gsvc.decoders.training.standalone.workers import processes, rank

LAYOUTS = {
    "one": "a process",
    "replicas": "the whole network in each process",
    "fsdp": "parameters, gradients and optimiser in parts (FSDP2)",
    "tensor": "convolutions of residual blocks in parts (DTensor); all see the same samples",
}


def group_of(layout: str, tensor: int) -> int:
    """Processes that see the same samples: all of layout tensor, else `tensor`.

    Raises ConfigError where processes cannot be put in such groups.
    """
    group = processes() if layout == "tensor" else tensor
    if processes() % group or (group > 1 and layout == "replicas"):
        raise ConfigError(
            f"--tensor is {tensor}: it goes with --layout fsdp and divides the {processes()} "
            "processes"
        )
    return group


def data_part(layout: str, tensor: int = 1) -> tuple[int, int]:
    """Which part of a batch this process has, and of how many. Errors as of `group_of`."""
    group = group_of(layout, tensor)
    return rank() // group, processes() // group


def spread(networks: nn.ModuleDict, layout: str, tensor: int, device: torch.device) -> None:
    """Spread networks over processes as a layout has it.

    Neighbours are in one group of tensor parallelism, since they exchange most: on machines of
    several GPUs they are on one. Over groups FSDP2 shares out what each process has (as in
    torchtitan, Liang et al., 2024). Raises ConfigError where no network can be split.
    """
    group = group_of(layout, tensor)
    if layout not in ("fsdp", "tensor"):
        return
    anything: Any = networks
    anything.to(memory_format=torch.contiguous_format)  # DTensor and FSDP2 know no other
    # It warns of sums over two dimensions, which are of norms and of what is saved.
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    shape = processes() // group, group
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("data", "tensor"))
    if group > 1:
        if not any(pairs_of(network) for network in networks.values()):
            raise ConfigError(f"--layout {layout}: these networks have no blocks to be split")
        for network in networks.values():
            split(network, mesh["tensor"])
    if layout == "fsdp":
        shard(networks, mesh["data"])


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


def shard(networks: nn.ModuleDict, mesh: DeviceMesh) -> None:
    """Give each process of the mesh its part of every parameter.

    On a GPU parts are gathered as bfloat16, and gradients are summed in single precision.
    """
    policy = MixedPrecisionPolicy()
    if mesh.device_type == "cuda":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for network in networks.values():
        for block in blocks_of(network):
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(network, mesh=mesh, mp_policy=policy)
