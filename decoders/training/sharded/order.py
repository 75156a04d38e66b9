"""The order in which samples are trained on: the same for any number of processes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

_MIXED = 16
"""Shards whose samples are mixed: as many are read at a time."""

Place = tuple[int, int]
"""A shard, and a row in it."""


class Order:
    """Epoch after epoch of all samples, each once an epoch.

    The shards of an epoch are put in random order, and the samples of every 16 mixed. A batch of
    step s has the samples from s times the batch on, of which each process takes its part: so a run
    goes on in the middle of an epoch, on more processes or fewer, and none is lost or doubled.
    """

    def __init__(self, counts: Sequence[int], batch: int, seed: int) -> None:
        """`counts`: samples of each shard. `batch`: samples of a step, of all processes."""
        self._counts, self._batch, self._seed = np.array(counts), batch, seed
        self.samples = int(self._counts.sum())
        """Of an epoch."""

    def batches(self, first: int, end: int, rank: int, processes: int) -> Iterator[list[Place]]:
        """The samples of steps `first` up to `end` for one process."""
        own = self._batch // processes
        stream = self._samples(first * self._batch)
        for _ in range(first, end):
            places = [next(stream) for _ in range(self._batch)]
            yield places[rank * own : (rank + 1) * own]

    def _samples(self, position: int) -> Iterator[Place]:
        epoch, left = divmod(position, self.samples)
        while True:
            for window in self._windows(epoch):
                count = int(self._counts[window].sum())
                if left >= count:
                    left -= count
                    continue
                yield from map(tuple, self._mixed(epoch, window)[left:].tolist())
                left = 0
            epoch += 1

    def _windows(self, epoch: int) -> Iterator[NDArray[np.int64]]:
        shards = default_rng((self._seed, epoch)).permutation(len(self._counts))
        yield from (shards[first : first + _MIXED] for first in range(0, len(shards), _MIXED))

    def _mixed(self, epoch: int, window: NDArray[np.int64]) -> NDArray[np.int64]:
        """Shard and row of each sample, (n, 2)."""
        places = [(shard, row) for shard in window for row in range(self._counts[shard])]
        rng = default_rng((self._seed, epoch, int(window[0])))
        return np.array(places, np.int64).reshape(-1, 2)[rng.permutation(len(places))]
