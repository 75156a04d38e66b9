"""A task that takes its samples from shards, in their order."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from gsvc.decoders.training.sharded.dice import StepDice
from gsvc.decoders.training.sharded.order import Order, Place
from gsvc.decoders.training.sharded.samples import ShardSamples, pack_of
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.losses import Seen
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.recipe import Stage
from gsvc.decoders.training.standalone.tasks import Batch, Task


class Streamed:
    """A `Task` around another one, whose `draw` gives the next samples of a stream."""

    def __init__(self, task: Task, packs: Iterator[Pack], device: torch.device) -> None:
        self._task, self._packs, self._device = task, packs, device
        self.kind, self.networks = task.kind, task.networks
        self.settings, self.quick = task.settings, task.quick

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """See `Task`; `count` is the stream's."""
        return self._task.whole(next(self._packs).to(self._device), stage, dice)

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return self._task.whole(pack, stage, dice)

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """See `Task`."""
        return self._task.estimate(batch, stage, dice)

    def held(self, count: int) -> list[Batch]:
        """Nothing: what is held out is not in shards."""
        return []

    def shown(self, batch: Batch) -> dict[str, torch.Tensor]:
        """See `Task`."""
        return dict(self._task.shown(batch))


class _Batches:
    """The places of each step for one process; a sampler of DataLoader."""

    def __init__(self, batches: Iterator[list[Place]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[Place]]:
        return self._batches


def streamed_packs(
    samples: ShardSamples, order: Order, steps: range, dice: StepDice, workers: int
) -> Iterator[Pack]:
    """The packs of these steps for this process, read ahead by so many worker processes."""
    places = order.batches(steps.start, steps.stop, dice.rank, dice.processes)
    loader: Any = DataLoader(
        samples, batch_sampler=_Batches(places), collate_fn=pack_of, num_workers=workers
    )
    return iter(loader)
