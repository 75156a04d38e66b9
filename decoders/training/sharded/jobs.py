"""Samples made where they are needed: sources are decoded and encoded while training runs.

A job is a clip that is encoded with one lambda. Which samples it gives is decided by the clip's
key, as when shards are prepared; how many, nobody knows before.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from numpy.random import default_rng

from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.preparation.clips import Clip
from gsvc.decoders.training.preparation.engine import limits_of
from gsvc.decoders.training.preparation.guard import ENDED, carry_row
from gsvc.decoders.training.preparation.items import ClipItem, Crop, in_row, of_row
from gsvc.decoders.training.preparation.members import seen_by_networks
from gsvc.decoders.training.preparation.operators import training_operators
from gsvc.decoders.training.preparation.prepare import Rows, begun_job, taken_clips
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.shards import Folder

WINDOW = 16
"""Jobs that follow each other whose samples are mixed."""


class Job(NamedTuple):
    """What a producer is asked for."""

    clip: Clip
    lmbda: int
    """The number of one among those of the settings."""


class Finished(NamedTuple):
    """What a job came to."""

    keys: list[str]
    """Of the samples: those that they have in shards."""
    samples: list[Sample]
    error: str
    """Why there are none; "" where the clip is whole."""

    @property
    def is_doubtful(self) -> bool:
        """Whether a process died over it: of the clip, or as its machine went away."""
        return ENDED in self.error


@dataclass(frozen=True)
class MakeSamples:
    """Carries jobs out; sent to producers. Operators run in a guarded process of their own."""

    settings: Settings

    def __call__(self, job: Job) -> Finished:
        """Decode the clip, encode it, cut samples, and show them to the networks asked for."""
        operators = training_operators(self.settings)
        item = ClipItem(0, clip=job.clip, lambdas=(job.lmbda,))
        row = carry_row(in_row(item), pickle.dumps(operators), limits_of(operators, 1.0))
        done = of_row(row)
        assert isinstance(done, ClipItem)
        if done.error:
            return Finished([], [], done.error)
        return Finished([x.key for x in done.crops], [_whole(x) for x in done.crops], "")


def _whole(crop: Crop) -> Sample:
    """A crop's sample with what networks saw in it."""
    stacks, arrays = seen_by_networks(crop.members)
    sample = crop.sample
    return replace(sample, stacks=sample.stacks | stacks, arrays=sample.arrays | arrays)


class Jobs:
    """All jobs of a folder whose sources were surveyed, epoch after epoch."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where `gsvc data prepare` has not surveyed all sources of `path`."""
        folder = Folder(path)
        sources, self.settings = begun_job(folder)
        self.sources: Rows
        self.sources, found, _ = taken_clips(sources, self.settings, folder)
        self._clips = [each.clip for each in found]
        self.count = len(self._clips) * len(self.settings.lambdas)
        """Of an epoch."""
        self.windows = -(-self.count // WINDOW)
        """Of an epoch."""

    def window(self, epoch: int, window: int) -> Iterator[Job]:
        """Those of one window: the clips are in another order in every epoch."""
        order = default_rng((self.settings.seed, epoch)).permutation(self.count)
        for number in order[window * WINDOW : (window + 1) * WINDOW].tolist():
            clip, lmbda = divmod(number, len(self.settings.lambdas))
            yield Job(self._clips[clip], lmbda)
