"""A stream of batches out of jobs: all samples of an epoch once each, in an order of its own."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from numpy.random import default_rng

from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.sharded.jobs import Finished, Job, Jobs
from gsvc.decoders.training.sharded.ledger import Ledger

CarryOut = Callable[[Iterator[Job]], Iterator[Finished]]
"""Carries jobs out, somewhere, and gives what they came to in their order."""


class Position(NamedTuple):
    """Where a stream is: the next sample of a window of an epoch."""

    epoch: int = 0
    window: int = 0
    sample: int = 0


class _Placed(NamedTuple):
    key: str
    sample: Sample
    after: Position
    """The position once it is taken."""


class Stream:
    """Batches of samples that are made as they are needed."""

    def __init__(self, jobs: Jobs, batch: int, ledger: Path, position: Position) -> None:
        """`batch`: samples of a step. `ledger`: the file that tells what became of every job."""
        self._jobs, self._batch = jobs, batch
        self.position = position
        """Behind the batch that was given last."""
        self._ledger = Ledger(ledger, position)
        self.keys: list[str] = []
        """Of the samples of that batch."""

    def batches(self, carry_out: CarryOut) -> Iterator[list[Sample]]:
        """Without end. Raises InputError where nothing can be made of the sources."""
        finished = carry_out(self._asked())
        samples = self._samples(finished)
        while taken := list(islice(samples, self._batch)):
            self.position, self.keys = taken[-1].after, [each.key for each in taken]
            yield [each.sample for each in taken]

    def _windows(self) -> Iterator[tuple[int, int]]:
        """Epoch and window, from the position on, without end."""
        epoch, window, _ = self.position
        while True:
            for number in range(window, self._jobs.windows):
                yield epoch, number
            epoch, window = epoch + 1, 0

    def _asked(self) -> Iterator[Job]:
        return chain.from_iterable(self._jobs.window(*place) for place in self._windows())

    def _samples(self, finished: Iterator[Finished]) -> Iterator[_Placed]:
        skipped = self.position.sample
        empty = 0
        for epoch, window in self._windows():
            jobs = list(self._jobs.window(epoch, window))
            done = list(islice(finished, len(jobs)))
            self._ledger.note(epoch, window, jobs, done)
            pairs = [pair for x in done for pair in zip(x.keys, x.samples, strict=True)]
            empty = 0 if pairs else empty + 1
            if empty and (all(x.error for x in done) or empty >= self._jobs.windows):
                why = next((x.error for x in done if x.error), "all of it is blank")
                raise InputError(f"no sample comes of {len(done)} clips in a row: {why}")
            order = default_rng((self._jobs.settings.seed, epoch, window)).permutation(len(pairs))
            for place, number in enumerate(order.tolist()):
                if place >= skipped:
                    key, sample = pairs[number]
                    yield _Placed(key, sample, Position(epoch, window, place + 1))
            skipped = 0
