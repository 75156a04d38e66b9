"""Samples made where they are needed: sources are decoded and encoded while training runs.

A job is a clip that is encoded with one lambda. Which samples it gives is decided by the clip's
key, as when shards are prepared; how many, nobody knows before.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from numpy.random import default_rng

from gsvc.codec.media.output import atomic_output, explain_failure
from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.preparation.engine import limits_of
from gsvc.decoders.training.preparation.guard import ENDED, carry_row
from gsvc.decoders.training.preparation.operators import training_operators
from gsvc.decoders.training.preparation.prepare import Rows, begun_job, taken_clips
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.shards import (
    ClipItem,
    Crop,
    Folder,
    in_row,
    of_row,
    seen_by_networks,
)
from gsvc.decoders.training.preparation.sources import Clip

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


_HEAD = "epoch", "window", "clip", "lambda", "samples", "error"


class Ledger:
    """A table with a line for each job: its clip, how many samples it gave, or why none.

    A run that goes on makes its last window again: lines from there on are taken away first.
    """

    def __init__(self, path: Path, position: tuple[int, int, int]) -> None:
        """`position`: epoch, window and sample from which the run goes on."""
        self._path = path
        with explain_failure(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            kept = ["\t".join(_HEAD), *(x for x in lines[1:] if _is_before(x, position))]
            with atomic_output(path, overwrite=True) as part:
                part.write_text("".join(f"{line}\n" for line in kept))

    def note(self, epoch: int, window: int, jobs: Sequence[Job], done: Sequence[Finished]) -> None:
        """What the jobs of a window came to."""
        rows = [
            (epoch, window, job.clip.key, job.lmbda, len(one.keys), " ".join(one.error.split()))
            for job, one in zip(jobs, done, strict=True)
        ]
        with explain_failure(self._path), self._path.open("a") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def _is_before(line: str, position: tuple[int, int, int]) -> bool:
    """Whether a line is whole, and of an earlier window."""
    fields = line.split("\t")
    if len(fields) != len(_HEAD) or not (fields[0].isdecimal() and fields[1].isdecimal()):
        return False
    return (int(fields[0]), int(fields[1])) < position[:2]
