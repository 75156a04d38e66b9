"""The samples that the job trains on, in memory."""

import random
from collections.abc import Sequence
from pathlib import Path

from beside.shards import read_shard
from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.samples import SHARD_PATTERN, Sample


class SamplePool:
    """Samples in memory: some of a folder's shards, of which the oldest make room for others.

    New shards in the folder are taken as they come; damaged ones are told of once and left out.
    """

    def __init__(self, folder: Path, most: int, seed: int, *, held: bool = False) -> None:
        """`most`: samples in memory; `held`: those to score on, not those to train on."""
        self._folder, self._most, self._held = folder, most, held
        self._rng = random.Random(seed)
        self._waiting: list[Path] = []
        self._bad: set[Path] = set()
        self._loaded: list[list[Sample]] = []
        self.told: list[str] = []
        """What went wrong since somebody looked."""

    def __len__(self) -> int:
        return sum(map(len, self._loaded))

    def fill(self) -> None:
        """Load shards up to the most that memory may hold. Raises InputError without any."""
        shards = len(list(self._folder.glob(SHARD_PATTERN)))
        for _ in range(shards):
            if len(self) >= self._most:
                break
            self.renew()
        if not len(self):
            raise InputError(f"no samples in {self._folder}: make train-beside makes them first")

    def renew(self) -> None:
        """Load one more shard; the oldest goes if there are too many samples."""
        if not self._waiting:
            # Those to score on are the first of all, so that scores of any two processes compare.
            shards = set(self._folder.glob(SHARD_PATTERN)) - self._bad
            self._waiting = sorted(shards, reverse=self._held)
            if not self._held:
                self._rng.shuffle(self._waiting)
        if not self._waiting:
            return
        path = self._waiting.pop()
        try:
            samples = [x for x in read_shard(path) if bool(x.numbers.get("held")) == self._held]
        except InputError as error:
            self._bad.add(path)
            self.told.append(str(error))
            return
        if samples:
            self._loaded.append(samples)
        while len(self._loaded) > 1 and len(self) - len(self._loaded[0]) >= self._most:
            self._loaded.pop(0)

    def draw(self, count: int) -> Sequence[Sample]:
        """Random samples, each shard as likely as it is large."""
        sizes = [len(shard) for shard in self._loaded]
        shards = self._rng.choices(self._loaded, sizes, k=count)
        return [self._rng.choice(shard) for shard in shards]

    def all(self) -> Sequence[Sample]:
        """All that are loaded."""
        return [sample for shard in self._loaded for sample in shard]
