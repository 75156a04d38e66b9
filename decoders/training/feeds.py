"""Where a run on shards has its batches from: shards, or sources that producers make samples of.

The order of samples is the same for any number of processes, and each comes once an epoch. Of a
source, a job is a clip that is encoded with one lambda. Which samples it gives is decided by the
clip's key, as when shards are prepared; how many, nobody knows before. A timeline shows who worked
and who waited: the bubbles of the pipeline.
"""

import json
import os
import pickle
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.random import default_rng
from torch import distributed
from torch.utils.data import DataLoader, Dataset

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.output import atomic_output, explain_failure
from gsvc.decoders.training import draws, engine, guard, pipeline, prepare
from gsvc.decoders.training.operators import training_operators
from gsvc.decoders.training.packs import Pack
from gsvc.decoders.training.parallel import processes, rank
from gsvc.decoders.training.samples import Sample, sample_of_files
from gsvc.decoders.training.sources import Clip, Settings

MAKES, TRAINS, WAITS = "makes", "trains", "waits"
"""What a process does; who waits has nothing to train on."""
TRAINER = "trainer"
_TRIES = 3  # after which an error counts: a machine that goes away may tell its end as one
_DEATHS = 20
"""Of processes over one piece that Ray makes up for; a process is busy when its machine goes."""
_LEAST_SPAN = 0.001  # seconds: shorter ones are many, and nothing to see
_SPANS_KEPT = 20_000  # of the timeline: the last ones

Ask = TypeVar("Ask")
Given = TypeVar("Given")


class Span(NamedTuple):
    """What a process did for a while."""

    who: str
    what: str
    number: int
    """Of the piece; pieces are made, waited for, taken and trained on."""
    begun: float
    """Seconds, by time.time()."""
    ended: float


class Made(NamedTuple):
    """A piece, who made it, and when by the clock of that machine."""

    given: Any
    machine: str
    process: int
    begun: float
    ended: float


class Producers(Generic[Ask, Given]):
    """Tasks of Ray that make pieces, a core each, on all machines that are there or come."""

    def __init__(self, ray: Any, make: Callable[[Ask], Given], ahead: int) -> None:
        """`ray`: connected. `ahead`: pieces, made or asked for, that wait at most."""
        self._ray, self._ahead = ray, ahead
        self._make = ray.put(make)
        self._task = ray.remote(num_cpus=1, max_retries=_DEATHS)(_timed)
        self.spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self.processes: dict[tuple[str, int], str] = {}
        """Names of those that have made something, by machine and process."""
        self._taken: tuple[int, float] | None = None

    def made(self, asked: Iterator[Ask]) -> Iterator[Given]:
        """What is made of each, in order. Raises what making raises."""
        jobs = ((one, self._task.remote(self._make, one)) for one in asked)
        waiting = deque(islice(jobs, self._ahead))
        number = 0
        while waiting:
            begun = time.time()
            done = self._done(*waiting.popleft())
            waiting.extend(islice(jobs, 1))
            self._taken = number, time.time()
            name = f"producer {len(self.processes)}"
            name = self.processes.setdefault((done.machine, done.process), name)
            self.spans.append(Span(name, MAKES, number, done.begun, done.ended))
            self.spans.append(Span(TRAINER, WAITS, number, begun, self._taken[1]))
            yield done.given
            self.note_training()
            number += 1

    def _done(self, one: Ask, reference: Any) -> Made:
        """What came of a piece; it is asked for again where a process or machine died over it."""
        for _ in range(_TRIES - 1):
            with suppress(self._ray.exceptions.RayTaskError):
                done: Made = self._ray.get(reference)
                if guard.ENDED not in getattr(done.given, "error", ""):
                    return done
            reference = self._task.remote(self._make, one)
        made: Made = self._ray.get(reference)
        return made

    def note_training(self) -> None:
        """That the trainer has been at what it took last."""
        if self._taken is not None:
            number, since = self._taken
            self.spans.append(Span(TRAINER, TRAINS, number, since, time.time()))
            self._taken = None

    def write_timeline(self, path: Path) -> None:
        """Write the last spans, for ui.perfetto.dev and chrome://tracing."""
        self.note_training()
        seen = [span for span in self.spans if span.ended - span.begun >= _LEAST_SPAN]
        events = [
            {
                "name": f"{span.what} {span.number}",
                "ph": "X",
                "pid": 0,
                "tid": span.who,
                "ts": round(span.begun * 1e6),  # in microseconds
                "dur": round((span.ended - span.begun) * 1e6),
            }
            for span in seen
        ]
        with atomic_output(path, overwrite=True) as part:
            part.write_text(json.dumps({"traceEvents": events}))


def _timed(make: Callable[[Any], Any], one: Any) -> Made:
    begun = time.time()
    return Made(make(one), socket.gethostname(), os.getpid(), begun, time.time())


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


def make_samples(settings: Settings, job: Job) -> Finished:
    """Decode the clip, encode it, cut samples, and show them to the networks asked for.

    Done by producers, whose operators run in a guarded process of their own.
    """
    operators = training_operators(settings)
    item = pipeline.ClipItem(0, clip=job.clip, lambdas=(job.lmbda,))
    row = guard.carry_row(
        pipeline.in_row(item), pickle.dumps(operators), engine.limits_of(operators, 1.0)
    )
    done = pipeline.of_row(row)
    assert isinstance(done, pipeline.ClipItem)
    if done.error:
        return Finished([], [], done.error)
    return Finished([x.key for x in done.crops], [x.sample for x in done.crops], "")


class Jobs:
    """All jobs of a folder whose sources were surveyed, epoch after epoch."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where `gsvc data prepare` has not surveyed all sources of `path`."""
        folder = pipeline.Folder(path)
        sources, self.settings = prepare.begun_job(folder)
        selected = prepare.selection(sources, self.settings, folder)
        self.sources, self._clips = selected.sources, [each.clip for each in selected.clips]
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


_MIXED = 16  # shards whose samples are mixed: as many are read at a time

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
            shards = default_rng((self._seed, epoch)).permutation(len(self._counts)).tolist()
            for first in range(0, len(shards), _MIXED):
                window = shards[first : first + _MIXED]
                places = [(shard, row) for shard in window for row in range(self._counts[shard])]
                if left >= len(places):
                    left -= len(places)
                    continue
                order = default_rng((self._seed, epoch, window[0])).permutation(len(places))
                yield from (places[number] for number in order[left:].tolist())
                left = 0
            epoch += 1


_TABLES_KEPT = 64


class ShardSamples(Dataset[Sample]):
    """The samples of a folder of `gsvc data prepare`, by shard and row."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where `path` holds no finished shards."""
        self.folder = pipeline.Folder(path)
        try:
            self.manifest: dict[str, Any] = json.loads((path / pipeline.MANIFEST).read_text())
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
        tar = self.folder.tar(shard)
        files = pipeline.read_members(tar, self.rows(shard)[row]["files"])
        return sample_of_files(files, str(tar))

    @cached_property
    def rows(self) -> Callable[[int], list[dict[str, Any]]]:
        """What each shard holds of its samples: key and files."""
        read = lambda n: json.loads(self.folder.table(n).read_text())["samples"]
        return lru_cache(_TABLES_KEPT)(read)


_shard_samples = cache(ShardSamples)


def read_batch(shards: Path, places: list[Place]) -> Pack:
    """The pack of the samples at these places; done by producers."""
    return Pack.of([_shard_samples(shards)[place] for place in places])


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
        asked = (self._jobs.window(*place) for place in self._windows())
        finished = carry_out(chain.from_iterable(asked))
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


LEDGER = "samples.tsv"


class ShardFeed:
    """Reads samples of shards, here or by producers of its own."""

    way = "shards"
    """A run keeps to one: orders of samples differ."""

    def __init__(
        self,
        samples: ShardSamples,
        batch: int,
        seed: int,
        workers: int,
        producers: Producers[list[Place], Pack] | None,
    ) -> None:
        """`batch`: samples of a step, of all processes. `workers`: that read ahead."""
        self.about = samples.manifest
        """`kind`, `settings`, `sources` and `samples` of what it is made of."""
        self._samples, self._workers, self._producers = samples, workers, producers
        self._order = Order(samples.counts, batch, seed)
        self.epoch = self._order.samples
        """Samples of an epoch; 0 where nobody knows."""

    def packs(self, steps: range, rng: draws.Rng, place: Any) -> Iterator[Pack]:
        """This process's part of every step's batch.

        `place`: what the feed said of where it was, or None; of shards it follows from the step.
        """
        places = self._order.batches(steps.start, steps.stop, rng.part, rng.parts)
        if self._producers is not None:
            return self._producers.made(places)
        ahead: dict[str, Any] = {"batch_sampler": places, "num_workers": self._workers}
        return iter(DataLoader(self._samples, collate_fn=Pack.of, **ahead))

    def place(self) -> Any:
        """Where it is, behind the pack that was taken last; of what JSON can hold."""
        return None

    def close(self, folder: Path) -> None:
        """Write what there is to tell about the making into the folder of the run."""
        if self._producers is not None:
            self._producers.write_timeline(folder / f"timeline-{rank()}.json")


class SourceFeed:
    """Has producers decode and encode sources. The first process asks, and deals batches out."""

    way = "sources"
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

    def packs(self, steps: range, rng: draws.Rng, place: Any) -> Iterator[Pack]:
        """As of `ShardFeed`. Raises InputError where no sample comes of the sources."""
        whole: Iterator[list[Sample]] = iter(())
        if self._producers is not None:
            at = Position(*place) if place else Position()
            self._stream = Stream(self._jobs, self._batch, self._folder / LEDGER, at)
            whole = self._stream.batches(self._producers.made)
        for _ in steps:
            yield self._dealt(whole, rng.parts)

    def _dealt(self, whole: Iterator[list[Sample]], among: int) -> Pack:
        """This process's part of the next batch, of so many; neighbours may have the same one."""
        if processes() == 1:
            return Pack.of(next(whole))
        parts, own = None, self._batch // among
        if rank() == 0:
            samples = next(whole)
            alike = processes() // among
            starts = [own * (number // alike) for number in range(processes())]
            parts = [Pack.of(samples[start : start + own]) for start in starts]
        dealt: list[Any] = [None]
        distributed.scatter_object_list(dealt, parts)
        pack: Pack = dealt[0]
        return pack

    def place(self) -> Any:
        return None if self._stream is None else list(self._stream.position)

    def close(self, folder: Path) -> None:
        if self._producers is not None:
            self._producers.write_timeline(folder / "timeline-0.json")
