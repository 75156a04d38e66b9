"""Tensor parallelism by DTensor: both convolutions of a residual block, each process a part.

As attention and MLP of a transformer are split (Shoeybi et al., Megatron-LM, 2019): the first layer
by its outputs, the second by its inputs, so that nothing but the block's result is summed, once
forwards, and once backwards the gradient of its input. What is between blocks is in all
processes.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor import distribute_tensor as in_parts
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module
from torch.nn import functional


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
