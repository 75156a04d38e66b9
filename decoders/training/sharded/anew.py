"""Samples made anew where they are needed: decoded, encoded, cut, as when shards were prepared."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gsvc.codec.errors import InputError
from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.preparation.clips import Clip
from gsvc.decoders.training.preparation.items import ClipItem
from gsvc.decoders.training.preparation.operators import Degrade, Read
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.shards import Folder
from gsvc.decoders.training.preparation.survey import survey_rows
from gsvc.decoders.training.sharded.order import Place
from gsvc.decoders.training.sharded.samples import ShardSamples, pack_of
from gsvc.decoders.training.standalone.pack import Pack


@dataclass
class FromShards:
    """Reads samples out of the tar files."""

    shards: Path

    @cached_property
    def _samples(self) -> ShardSamples:
        return ShardSamples(self.shards)

    def __call__(self, places: list[Place]) -> Pack:
        """See `Make`."""
        return pack_of([self._samples[place] for place in places])


@dataclass
class Anew:
    """Makes the same samples out of their sources; the tar files need not be there."""

    shards: Path

    @cached_property
    def _samples(self) -> ShardSamples:
        return ShardSamples(self.shards)

    @cached_property
    def _clips(self) -> dict[str, Clip]:
        sources = [""] * self._samples.manifest["surveyed"]
        rows = survey_rows(sources, Folder(self.shards))
        return {found.clip.key: found.clip for row in rows for found in row["found"]}

    def __call__(self, places: list[Place]) -> Pack:
        """See `Make`. Raises InputError where a source is not what it was."""
        rows: dict[str, list[str]] = defaultdict(list)
        keys = [self._samples.key(place) for place in places]
        for key in keys:
            rows[key.rsplit("-", 2)[0]].append(key)
        made: dict[str, Sample] = {}
        for clip, wanted in rows.items():
            made |= self._samples_of(self._clips[clip], wanted)
        return pack_of([made[key] for key in keys])

    def _samples_of(self, clip: Clip, keys: list[str]) -> dict[str, Sample]:
        settings = Settings(**self._samples.manifest["settings"])
        item = ClipItem(0, clip=clip)
        Read(settings)(item)
        Degrade(settings)(item)
        found = {crop.key: crop.sample for crop in item.crops}
        if missing := set(keys) - found.keys():
            raise InputError(f"{clip.address} no longer gives {' '.join(sorted(missing))}")
        return {key: found[key] for key in keys}
