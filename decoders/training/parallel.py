"""How a network is spread over processes: replicas, FSDP2, tensor parallelism by DTensor.

Distributed checkpoints: each process writes its part, and any number of processes reads them.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor as in_parts,
)
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module
from torch.nn import functional

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.processes import processes, rank, whole


def pairs_of(network: nn.Module) -> dict[str, nn.Module]:
    """The blocks that can be split: `first`, perhaps `modulate`, then `second`; by name."""
    return {
        name: block
        for name, block in network.named_modules()
        if isinstance(getattr(block, "first", None), nn.Conv2d)
        and isinstance(getattr(block, "second", None), nn.Conv2d)
    }


def split(network: nn.Module, mesh: DeviceMesh) -> None:
    """Give each process of the mesh its part of every block's convolutions."""
    plan: dict[str, ParallelStyle] = {}
    for name, block in pairs_of(network).items():
        plan |= {f"{name}.first": _ByOutputs(), f"{name}.second": _ByInputs()}
        if hasattr(block, "modulate"):
            plan[f"{name}.modulate"] = _Modulation()
    if plan:
        parallelize_module(network, mesh, plan)


class _ByOutputs(ParallelStyle):
    """A convolution of which each process has some of the output channels."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        _put_parts(module, device_mesh, weight=Shard(0), bias=Shard(0))

        def forward(x: Tensor) -> Tensor:
            each: Any = DTensor.from_local(x, device_mesh, [Replicate()], run_check=False)
            part: Tensor = each.to_local(grad_placements=[Partial()])  # its gradient is summed
            weight, bias = _local(module, "weight"), _local(module, "bias")
            return _convolved(module, part, weight, bias)

        module.forward = forward
        return module


class _ByInputs(ParallelStyle):
    """A convolution of which each process has some of the input channels; results are summed."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        _put_parts(module, device_mesh, weight=Shard(1))

        def forward(x: Tensor) -> Tensor:
            part = _convolved(module, x, _local(module, "weight"), None)
            summed: Any = DTensor.from_local(part, device_mesh, [Partial()], run_check=False)
            whole: Tensor = summed.redistribute(placements=[Replicate()]).to_local()
            bias: Any = module.bias
            made: Tensor = whole + bias.view(1, -1, 1, 1)
            return made

        module.forward = forward
        return module


class _Modulation(ParallelStyle):
    """A small layer that every process has, of whose scales and shifts it needs some."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        layer: Any = module

        def forward(x: Tensor) -> Tensor:
            both = functional.linear(x, layer.weight, layer.bias).view(len(x), 2, -1)
            each: Any = DTensor.from_local(both, device_mesh, [Replicate()], run_check=False)
            part: Tensor = each.redistribute(placements=[Shard(2)]).to_local().flatten(1)
            return part

        layer.forward = forward
        return module


def _put_parts(module: nn.Module, mesh: DeviceMesh, **placements: Placement) -> None:
    for name, placement in placements.items():
        whole = getattr(module, name).detach().contiguous()
        part = nn.Parameter(in_parts(whole, mesh, [placement]))
        module.register_parameter(name, part)


def _local(module: nn.Module, name: str) -> Tensor:
    parameter: Any = getattr(module, name)
    part: Tensor = parameter.to_local()
    return part


def _convolved(module: nn.Module, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    layer: Any = module
    made: Tensor = torch.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation)
    return made


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


_KEPT = 2
_RUN = "run"


class Checkpoints:
    """Those of a run, `step-NNNNNNN` each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest(self) -> Path | None:
        """The newest one that is whole."""
        found = sorted(self._folder.glob("step-*/.metadata"))
        return found[-1].parent if found else None

    def save(self, learner: Learner, about: Mapping[str, Any]) -> None:
        """Write one, and remove old ones. All processes must ask.

        `about`: of the first one, which alone knows where its producers are.
        """
        path = self._folder / f"step-{learner.step:07d}"
        said = [json.dumps(about)]
        if processes() > 1:
            distributed.broadcast_object_list(said, 0)
        with _alone():
            save({**_state(learner), _RUN: said[0]}, checkpoint_id=path)
        if rank() == 0:
            for old in sorted(self._folder.glob("step-*"))[:-_KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        if processes() > 1:
            distributed.barrier()

    def load(self, path: Path, learner: Learner, about: Mapping[str, Any]) -> dict[str, Any]:
        """Put the state of `path` into a learner; `about` is what it must be of.

        Returns all that was said of it when it was saved. Raises ConfigError where it is of
        something else.
        """
        text = {_RUN: ""}
        with _alone():
            load(text, checkpoint_id=path)
        told, own = json.loads(text[_RUN]), json.loads(json.dumps(about))
        if other := [name for name in own if told.get(name) != own[name]]:
            raise ConfigError(f"{path} is of another {', '.join(other)}: take another folder")
        networks = learner.task.networks
        with _alone(), _only_learned(networks, path):
            state = _state(learner)
            load(state, checkpoint_id=path)
            set_optimizer_state_dict(
                networks, learner.optimizer, optim_state_dict=state["optimizer"]
            )
        learner.step = learner.steps_since_start = int(state["step"])
        if learner.adversary is not None:
            critic, optimizer = learner.adversary.critic, learner.adversary.optimizer
            set_optimizer_state_dict(critic, optimizer, optim_state_dict=state["critic optimizer"])
            learner.adversary.steps = int(state["critic steps"])
        said: dict[str, Any] = told
        return said


@contextmanager
def _alone() -> Iterator[None]:
    """Without the warning that there is one process only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        yield


@contextmanager
def _only_learned(networks: nn.ModuleDict, path: Path) -> Iterator[None]:
    """In it, only those parameters seem to learn of which the checkpoint's optimiser knows.

    A prior that learns in the last stage has no moments before it.
    """
    known = FileSystemReader(path).read_metadata().state_dict_metadata
    before = {each: each.requires_grad for each in networks.parameters()}
    for name, each in networks.named_parameters():
        each.requires_grad_(f"optimizer.state.{name}.step" in known)
    try:
        yield
    finally:
        for each, learns in before.items():
            each.requires_grad_(learns)


def _state(learner: Learner) -> dict[str, Any]:
    """All that training goes on from; tensors are those of the learner."""
    networks, adversary = learner.task.networks, learner.adversary
    state = {
        "networks": dict(networks.named_parameters()),
        "average": dict(zip(learner.names, learner.average, strict=True)),
        "optimizer": get_optimizer_state_dict(networks, learner.optimizer),
        "step": torch.tensor(learner.step),
    }
    if adversary is not None:
        state["critic"] = dict(adversary.critic.named_parameters())
        state["critic optimizer"] = get_optimizer_state_dict(adversary.critic, adversary.optimizer)
        state["critic steps"] = torch.tensor(adversary.steps)
    return state


def whole_average(learner: Learner) -> dict[str, Tensor]:
    """The averaged weights in single pieces. All processes must ask."""
    return {name: whole(value).cpu() for name, value in learner.weights().items()}
