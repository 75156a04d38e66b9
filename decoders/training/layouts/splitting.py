"""What tensor parallelism has in parts, and what it exchanges: measured in a step of training."""

from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from gsvc.decoders.training.layouts.trial import Trial, bytes_of
from gsvc.decoders.training.sharded.split import pairs_of

_PASSES = 3
"""Forwards, and backwards for inputs and weights."""


class Splitting(NamedTuple):
    """Bytes and operations that processes share out between them, and bytes that they sum."""

    parameters: int
    """Bytes."""
    sample: int
    """Bytes of activations that are kept for the way back, for each sample."""
    flops: int
    """Operations of a sample's step."""
    summed: int
    """Bytes of a sample that are summed over all processes in a step: results of blocks
    forwards, gradients of their inputs backwards."""


NOT_SPLIT = Splitting(0, 0, 0, 0)


class _Counts:
    """Notes blocks while a step runs."""

    def __init__(self) -> None:
        self.sample = self.flops = self.summed = 0
        self._inner: saved_tensors_hooks | None = None
        self._seen: set[int] = set()

    def watch(self, block: nn.Module) -> list[Any]:
        """Handles of hooks on both convolutions."""
        first: Any = block.get_submodule("first")
        second: Any = block.get_submodule("second")
        return [
            first.register_forward_hook(self._enter),
            second.register_forward_hook(self._leave),
        ]

    def _enter(self, layer: nn.Conv2d, given: Any, made: Tensor) -> None:
        """From here on, up to the second convolution, channels are in parts."""
        self._count(layer, made)
        if torch.is_grad_enabled():
            self._inner = saved_tensors_hooks(self._note, lambda kept: kept)
            self._inner.__enter__()

    def _leave(self, layer: nn.Conv2d, given: Any, made: Tensor) -> None:
        self._count(layer, made)
        if self._inner is not None:
            self._inner.__exit__(None, None, None)
            self._inner = None
        self.summed += (1 + made.requires_grad) * made.nbytes

    def _count(self, layer: nn.Conv2d, made: Tensor) -> None:
        passes = _PASSES if made.requires_grad else 1
        self.flops += 2 * passes * made.numel() * layer.weight[0].numel()

    def _note(self, kept: Tensor) -> Tensor:
        key = kept.untyped_storage()._cdata
        if kept.ndim == 4 and key not in self._seen and not isinstance(kept, nn.Parameter):
            self._seen.add(key)
            self.sample += kept.nbytes
        return kept


def splitting_of(trial: Trial) -> Splitting:
    """Of a step with one sample."""
    learner, counts = trial.learner(), _Counts()
    networks = learner.task.networks.values()
    blocks = [block for network in networks for block in pairs_of(network).values()]
    with ExitStack() as stack:
        for block in blocks:
            for handle in counts.watch(block):
                stack.callback(handle.remove)
        trial.step(learner, 1)
    layers: list[Any] = [getattr(x, name) for x in blocks for name in ("first", "second")]
    parameters = bytes_of(layer.weight for layer in layers)
    return Splitting(parameters, counts.sample, counts.flops, counts.summed)
