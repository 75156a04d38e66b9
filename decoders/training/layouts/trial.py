"""A learner on made-up samples, to measure what steps take."""

import dataclasses
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.compact.network import SIZES
from gsvc.decoders.training.frozen import frozen_networks
from gsvc.decoders.training.packing.kinds import KINDS
from gsvc.decoders.training.sharded.dice import StepDice
from gsvc.decoders.training.sharded.parallel import blocks_of, data_part, recompute, spread
from gsvc.decoders.training.sharded.streamed import Streamed
from gsvc.decoders.training.standalone.learner import Learner
from gsvc.decoders.training.standalone.losses import Losses
from gsvc.decoders.training.standalone.main import task_of
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.recipe import Recipe, Stage

_FRAMES = 9
_CHANNELS = {"gain": 1, "confidence": 1}


class Trial:
    """Steps of a recipe's last stage, where all learns that ever does."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        """Raises ConfigError for a recipe that needs a teacher."""
        if recipe.task == "teach":
            raise ConfigError("a recipe with a teacher is not measured: ask for that of its task")
        self.kind = "pictures" if recipe.task == "restore" else "windows"
        self.recipe, self.device = _steady(recipe), device
        self.stage: Stage = self.recipe.stages[-1]
        prior = SIZES.get(recipe.network.get("size", ""), {}).get("prior")
        names = {*KINDS[self.kind].networks, *([str(prior)] if prior else [])}
        self.frozen = frozen_networks(sorted(names))
        self._dice = StepDice(device, 0, *data_part("one"))

    def learner(self, *, recomputes: bool = False, layout: str = "one", tensor: int = 1) -> Learner:
        """One with new weights, spread over processes as `parallel.spread` does."""
        empty = {"held": torch.zeros(0), "window": torch.zeros(0, 2)}
        pack = Pack({"kind": self.kind}, {}, empty, self.frozen)
        task = task_of(pack, self.recipe, self.device, None)
        if recomputes:
            recompute(task.networks)
        self._dice = StepDice(self.device, 0, *data_part(layout, tensor))
        spread(task.networks, layout, tensor, self.device)
        learner = Learner(task, Losses(pack.networks, self.device), self.recipe, self._dice)
        if layout != "fsdp":
            learner.begin_stage(self.stage)
        return learner

    def step(self, learner: Learner, batch: int) -> None:
        """One step of training with so many samples, of this process."""
        task = learner.task
        self._dice.begin(0)  # always as many steps of the sampler
        learner.task = Streamed(task, self._packs(batch), self.device)
        try:
            learner.learn(self.stage, batch, self.recipe.rate)
        finally:
            learner.task = task

    def _packs(self, batch: int) -> Iterator[Pack]:
        kind = KINDS[self.kind]
        counts = {"keys": 2} if self.kind == "windows" else {}
        each = _FRAMES if self.kind == "windows" else 1
        stacks = {
            name: torch.randint(
                0,
                255,
                (batch * counts.get(name, each), _CHANNELS.get(name, 3), kind.side, kind.side),
                dtype=torch.uint8,
            )
            for name in kind.steps
        }
        rows = torch.arange(batch, dtype=torch.int32)
        arrays = {
            "held": torch.zeros(batch, dtype=torch.uint8),
            "scalars": torch.full((batch, 2), 0.5),
            "time": torch.linspace(0, 1, batch * each),
            "window": torch.stack([rows * each, torch.full_like(rows, each)], 1),
        }
        yield Pack({}, stacks, arrays, {})


def _steady(recipe: Recipe) -> Recipe:
    """The same with the most steps of the sampler in every batch, and all terms of the loss."""
    stage = recipe.stages[-1]
    most = max(stage.steps, key=int)
    return dataclasses.replace(recipe, stages=(dataclasses.replace(stage, steps={most: 1.0}),))


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def largest_block(networks: nn.ModuleDict) -> int:
    """Bytes of the parameters that FSDP2 gathers at a time, at most."""
    sizes = []
    for network in networks.values():
        blocks = [bytes_of(block.parameters()) for block in blocks_of(network)]
        sizes += [*blocks, bytes_of(network.parameters()) - sum(blocks)]
    return max(sizes)
