"""Where a run has its batches from: shards, or sources that producers make samples of."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from torch import distributed

from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.sharded.dice import StepDice
from gsvc.decoders.training.sharded.jobs import Finished, Job, Jobs
from gsvc.decoders.training.sharded.order import Order, Place
from gsvc.decoders.training.sharded.producers import Producers
from gsvc.decoders.training.sharded.samples import ShardSamples, pack_of
from gsvc.decoders.training.sharded.stream import Position, Stream
from gsvc.decoders.training.sharded.streamed import streamed_packs
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.workers import processes, rank

SHARDS, SOURCES = "shards", "sources"
LEDGER = "samples.tsv"
"""In the folder of a run."""


class Feed(Protocol):
    """Gives a process its part of every step's batch."""

    about: dict[str, Any]
    """`kind`, `settings`, `sources` and `samples` of what it is made of."""
    way: str
    """A run keeps to one: orders of samples differ."""
    epoch: int
    """Samples of an epoch; 0 where nobody knows."""

    def packs(self, steps: range, dice: StepDice, place: Any) -> Iterator[Pack]:
        """One for each step. `place`: what the feed said of where it was, or None."""

    def place(self) -> Any:
        """Where it is, behind the pack that was taken last; of what JSON can hold."""

    def close(self, folder: Path) -> None:
        """Write what there is to tell about the making into the folder of the run."""


class ShardFeed:
    """Reads samples of shards, here or by producers of its own."""

    way = SHARDS

    def __init__(
        self,
        samples: ShardSamples,
        batch: int,
        seed: int,
        workers: int,
        producers: Producers[list[Place], Pack] | None,
    ) -> None:
        """`batch`: samples of a step, of all processes. `workers`: that read ahead."""
        self.about, self._samples, self._workers = samples.manifest, samples, workers
        self._order, self._producers = Order(samples.counts, batch, seed), producers
        self.epoch = self._order.samples

    def packs(self, steps: range, dice: StepDice, place: Any) -> Iterator[Pack]:
        """See `Feed`; the place follows from the step."""
        if self._producers is None:
            return streamed_packs(self._samples, self._order, steps, dice, self._workers)
        places = self._order.batches(steps.start, steps.stop, dice.rank, dice.processes)
        return self._producers.made(places)

    def place(self) -> Any:
        """See `Feed`."""
        return None

    def close(self, folder: Path) -> None:
        """See `Feed`."""
        if self._producers is not None:
            self._producers.write_timeline(folder / f"timeline-{rank()}.json")


class SourceFeed:
    """Has producers decode and encode sources. The first process asks, and deals batches out."""

    way = SOURCES
    epoch = 0

    def __init__(
        self, jobs: Jobs, batch: int, folder: Path, producers: Producers[Job, Finished] | None
    ) -> None:
        """`folder`: of the run. `producers`: of the first process; None in the others."""
        self._jobs, self._batch, self._folder, self._producers = jobs, batch, folder, producers
        self._stream: Stream | None = None
        settings = jobs.settings
        self.about = {
            "kind": settings.kind,
            "settings": json.loads(json.dumps(vars(settings))),
            "sources": [{"address": x["address"]} for x in jobs.sources if not x["error"]],
            "samples": 0,
        }

    def packs(self, steps: range, dice: StepDice, place: Any) -> Iterator[Pack]:
        """See `Feed`. Raises InputError where no sample comes of the sources."""
        whole: Iterator[list[Sample]] = iter(())
        if self._producers is not None:
            at = Position(*place) if place else Position()
            self._stream = Stream(self._jobs, self._batch, self._folder / LEDGER, at)
            whole = self._stream.batches(self._producers.made)
        for _ in steps:
            yield self._dealt(whole, dice.processes)
            if self._producers is not None:
                self._producers.tend()

    def _dealt(self, whole: Iterator[list[Sample]], among: int) -> Pack:
        """This process's part of the next batch, of so many; neighbours may have the same one."""
        if processes() == 1:
            return pack_of(next(whole))
        parts, own = None, self._batch // among
        if rank() == 0:
            samples = next(whole)
            alike = processes() // among
            starts = [own * (number // alike) for number in range(processes())]
            parts = [pack_of(samples[start : start + own]) for start in starts]
        dealt: list[Any] = [None]
        distributed.scatter_object_list(dealt, parts)
        pack: Pack = dealt[0]
        return pack

    def place(self) -> Any:
        """See `Feed`."""
        return None if self._stream is None else list(self._stream.position)

    def close(self, folder: Path) -> None:
        """See `Feed`."""
        if self._producers is not None:
            self._producers.write_timeline(folder / "timeline-0.json")
