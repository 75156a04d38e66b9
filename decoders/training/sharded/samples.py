"""Samples out of shards, as batches that tasks take."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.packing.kinds import Sample, joined
from gsvc.decoders.training.preparation.members import sample_of
from gsvc.decoders.training.preparation.shards import MANIFEST, Folder, read_members
from gsvc.decoders.training.sharded.order import Place
from gsvc.decoders.training.standalone.pack import Pack

_TABLES_KEPT = 64


class ShardSamples(Dataset[Sample]):
    """The samples of a folder of `gsvc data prepare`, by shard and row."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where `path` holds no finished shards."""
        self.folder = Folder(path)
        try:
            self.manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
            self.counts = [int(shard["samples"]) for shard in self.manifest["shards"]]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{path} holds no finished shards: gsvc data prepare makes them, or producers do "
                "with --anew as they are needed"
            ) from error
        if not sum(self.counts):
            raise InputError(f"{path} holds no samples")

    def __getitem__(self, place: Place) -> Sample:
        """Raises InputError for a damaged shard."""
        shard, row = place
        return sample_of(read_members(self.folder.tar(shard), self._rows(shard)[row]["files"]))

    def key(self, place: Place) -> str:
        """The name of a sample."""
        return str(self._rows(place[0])[place[1]]["key"])

    def _rows(self, shard: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._tables(shard)["samples"]
        return rows

    @cached_property
    def _tables(self) -> Any:
        return lru_cache(_TABLES_KEPT)(lambda n: json.loads(self.folder.table(n).read_text()))


@dataclass
class FromShards:
    """Reads batches out of tar files; sent to producers."""

    shards: Path

    @cached_property
    def _samples(self) -> ShardSamples:
        return ShardSamples(self.shards)

    def __call__(self, places: list[Place]) -> Pack:
        """The pack of the samples at these places."""
        return pack_of([self._samples[place] for place in places])


def pack_of(samples: Sequence[Sample]) -> Pack:
    """A pack that has these samples, without networks."""
    stacks, arrays = joined(samples)
    rows = {name: torch.from_numpy(array) for name, array in arrays.items()}
    rows["held"] = torch.zeros(len(samples), dtype=torch.uint8)
    if "frames" in rows:
        frames = rows.pop("frames").int()
        rows["window"] = torch.stack([frames.cumsum(0).int() - frames, frames], 1)
    pictures = {name: torch.from_numpy(stack).permute(0, 3, 1, 2) for name, stack in stacks.items()}
    return Pack({}, pictures, rows, {})
