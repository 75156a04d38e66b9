"""Processes that train one network together, one a GPU or a machine, as torchrun starts them.

With replicas the mean of all gradients is what all learn from, as DistributedDataParallel has it;
done by hand, it bears networks that begin to learn late. FSDP2 and tensor parallelism by DTensor
spread the network itself.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import tensor as dtensor
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.rendezvous import rendezvous

from gsvc.codec.bitstream.errors import ConfigError

_RANK, _LOCAL, _RESTARTS = "RANK", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"


def join(device: str) -> torch.device:
    """Join the other processes if torchrun has started this one.

    Returns the device to train on: with cuda, one for each process.
    """
    if _RANK not in os.environ:
        return torch.device(device)
    on_gpu = device.startswith("cuda")
    if not distributed.is_initialized():
        store, own_rank, count = next(iter(rendezvous("env://")))
        # After a restart by torchrun gloo would find the addresses of those who died.
        again = PrefixStore(f"restart-{os.environ.get(_RESTARTS, '0')}", store)
        backend = "nccl" if on_gpu else "gloo"
        distributed.init_process_group(backend, store=again, rank=own_rank, world_size=count)
    if not on_gpu:
        return torch.device(device)
    own = torch.device(f"cuda:{os.environ[_LOCAL]}")
    torch.cuda.set_device(own)
    return own


def rank() -> int:
    """This process's number; 0 is the first, or the only one."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def processes() -> int:
    """How many train."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def leave() -> None:
    """Leave the other processes, if there are any."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def ended(code: int) -> int:
    """The exit code of a process that has left; one that torchrun has started ends here with it.

    As Python ends, threads of torch may abort the process: torchrun would end the others.
    """
    if _RANK in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def is_sharded(tensor: Tensor) -> bool:
    """Whether each process has a part of it, as with FSDP2."""
    return isinstance(tensor, dtensor.DTensor)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, in every process; all must ask."""
    return tensor.full_tensor() if isinstance(tensor, dtensor.DTensor) else tensor


def own_part(tensor: Tensor) -> Tensor:
    """What this process has of a tensor."""
    return tensor.to_local() if isinstance(tensor, dtensor.DTensor) else tensor


def alike(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Those that are not sharded, and those that are so over the same processes, each apart:
    operations on lists bear one kind."""
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(getattr(tensor, "device_mesh", None), []).append(tensor)
    return list(kinds.values())


def clip_gradients(parameters: Sequence[nn.Parameter], largest: float) -> Tensor:
    """Make all gradients together no longer than `largest`; returns how long they were."""
    kinds = alike(parameters)
    if len(kinds) < 2:
        length: Tensor = whole(nn.utils.clip_grad_norm_(parameters, largest))
        return length
    gradients = [[x.grad for x in kind if x.grad is not None] for kind in kinds]
    norms = [whole(nn.utils.get_total_norm(kind)) for kind in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    share = (largest / (norm + 1e-6)).clamp(max=1.0)
    for gradient in (each for kind in gradients for each in kind):
        own_part(gradient).mul_(share)
    return norm


def mean_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Make the gradients of all processes their mean; those that are sharded are already."""
    if processes() == 1:
        return
    gradients = [x.grad for x in parameters if x.grad is not None and not is_sharded(x.grad)]
    if not gradients:
        return
    flat = mean_of_all(torch.cat([gradient.flatten() for gradient in gradients]))
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def of_the_first(values: Sequence[float], device: torch.device) -> list[float]:
    """The values that the first process has."""
    if processes() == 1:
        return list(values)
    shared = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.broadcast(shared, 0)
    numbers: list[float] = shared.tolist()
    return numbers


def mean_of_all(values: Tensor) -> Tensor:
    """The mean over processes."""
    if processes() > 1:
        distributed.all_reduce(values)
        values /= processes()
    return values


def pairs_of(network: nn.Module) -> list[Any]:
    """The blocks that can be split: `first`, perhaps `modulate`, then `second`."""
    return [
        block
        for block in network.modules()
        if isinstance(getattr(block, "first", None), nn.Conv2d)
        and isinstance(getattr(block, "second", None), nn.Conv2d)
    ]


def split(network: nn.Module, mesh: DeviceMesh) -> None:
    """Give each process of the mesh its part of every block's convolutions."""
    for block in pairs_of(network):
        _split_outputs(block.first, mesh)
        _split_inputs(block.second, mesh)
        if hasattr(block, "modulate"):
            _split_scales(block.modulate, mesh)


def _split_outputs(layer: Any, mesh: DeviceMesh) -> None:
    """Each process has some of a convolution's output channels."""
    _put_parts(layer, mesh, weight=dtensor.Shard(0), bias=dtensor.Shard(0))

    def forward(x: Tensor) -> Tensor:
        each = dtensor.DTensor.from_local(x, mesh, [dtensor.Replicate()], run_check=False)
        # The gradient of its own part is summed.
        own: Tensor = each.to_local(grad_placements=[dtensor.Partial()])
        return _convolved(layer, own, layer.bias.to_local())

    layer.forward = forward


def _split_inputs(layer: Any, mesh: DeviceMesh) -> None:
    """Each process has some of a convolution's input channels; results are summed."""
    _put_parts(layer, mesh, weight=dtensor.Shard(1))

    def forward(x: Tensor) -> Tensor:
        part = _convolved(layer, x, None)
        parts = dtensor.DTensor.from_local(part, mesh, [dtensor.Partial()], run_check=False)
        summed = parts.redistribute(placements=[dtensor.Replicate()]).to_local()
        made: Tensor = summed + layer.bias.view(1, -1, 1, 1)
        return made

    layer.forward = forward


def _split_scales(layer: Any, mesh: DeviceMesh) -> None:
    """Every process has a small layer, and needs some of its scales and shifts."""

    def forward(x: Tensor) -> Tensor:
        both = nn.functional.linear(x, layer.weight, layer.bias).view(len(x), 2, -1)
        each = dtensor.DTensor.from_local(both, mesh, [dtensor.Replicate()], run_check=False)
        own: Tensor = each.redistribute(placements=[dtensor.Shard(2)]).to_local()
        return own.flatten(1)

    layer.forward = forward


def _put_parts(layer: nn.Module, mesh: DeviceMesh, **placements: dtensor.Placement) -> None:
    for name, placement in placements.items():
        whole = getattr(layer, name).detach().contiguous()
        part = nn.Parameter(dtensor.distribute_tensor(whole, mesh, [placement]))
        layer.register_parameter(name, part)


def _convolved(layer: Any, x: Tensor, bias: Tensor | None) -> Tensor:
    weight: Tensor = layer.weight.to_local()
    return torch.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation)


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


def compiled(
    networks: Mapping[str, nn.Module], device: torch.device, tell: Callable[..., None]
) -> dict[str, Any]:
    """The networks, compiled; as they are where something trivial cannot be, which is told."""
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(8, device=device))
    except Exception as error:  # noqa: BLE001 - a missing C++ compiler's may be anything
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        tell("eager", why=f"torch.compile cannot run here: {why}")
        return dict(networks)
    return {name: torch.compile(network) for name, network in networks.items()}
