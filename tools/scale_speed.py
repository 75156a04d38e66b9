"""Two producers and one who trains against one process that does all, on the same machine.

    gsvc data prepare CLIPS FOLDER --survey-only --lines 192 --frames 17 --lambdas 90 30
    python tools/scale_speed.py FOLDER --picture bubbles.png

Both ways make the same samples of the same clips and train on them in the same order. The clock
runs from when all processes have made and trained something until the last sample is trained on;
nothing is made before it starts, and nothing that is not trained on. Ways take turns, the first
one first in every other round.

What is simulated says so: `--step-seconds` has a step of training wait instead of compute, as a
process does whose GPU computes; `--fetch-seconds` has a clip take so long to come, as from storage
far away.
"""

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from gsvc.decoders.training.feeds import (
    MAKES,
    TRAINS,
    WAITS,
    WINDOW,
    CarryOut,
    Finished,
    Job,
    Jobs,
    Position,
    Producers,
    Span,
    Stream,
    make_samples,
)
from gsvc.decoders.training.layouts import Trial
from gsvc.decoders.training.packs import Pack
from gsvc.decoders.training.recipe import read_recipe
from gsvc.decoders.training.samples import Sample
from gsvc.eval.bench.workers import ray_cluster
from timeline import draw_timeline, share_of

STORE = 150_000_000
AHEAD = 64
ALONE, APART = "one process", "producers"
Making = Callable[[Job], Finished]


@dataclasses.dataclass
class Make:
    """Makes samples, and waits for the clip first where that is simulated."""

    make: Making
    fetch: float

    def __call__(self, job: Job) -> Finished:
        """See `make_samples`."""
        time.sleep(self.fetch)
        return self.make(job)


@dataclasses.dataclass
class Run:
    """What a way came to."""

    seconds: float
    keys: list[str]
    """Of all samples, as they were trained on."""
    spans: list[Span]
    cores: float
    """That all its processes kept busy."""
    cpu: float
    """Seconds of processors, of all its processes."""
    first: float
    """Seconds until there was something to train on: a window is mixed when it is whole."""


class Consumer:
    """Trains a small network, or waits as long as a step is said to take elsewhere."""

    def __init__(self, batch: int, seconds: float) -> None:
        recipe = read_recipe("medium")
        recipe = dataclasses.replace(recipe, network={"size": "nano"}, side=64)
        self.batch, self._seconds = batch, seconds
        self._trial = Trial(recipe, torch.device("cpu"))
        self._learner = self._trial.learner()
        self._trial.step(self._learner, batch)

    def train(self, samples: list[Sample]) -> None:
        """One step."""
        if self._seconds:
            time.sleep(self._seconds)
            return
        self._learner.packs = iter([Pack.of(samples)])
        self._learner.learn(self._trial.stage, len(samples), 1e-4)


class Work:
    """The samples of some windows of an epoch."""

    def __init__(self, folder: Path, windows: int, fetch: float) -> None:
        self.jobs, self._windows = Jobs(folder), windows
        self.make = Make(partial(make_samples, self.jobs.settings), fetch)

    def warm(self) -> list[Job]:
        """Jobs to begin with, of another epoch."""
        return list(islice(self.jobs.window(1, 0), 4))

    def train(self, consumer: Consumer, carry_out: CarryOut, took: Callable[..., None]) -> Run:
        """Carry all jobs out, and train on all samples that fill batches."""
        count, sizes = self._windows * WINDOW, list[int]()

        def finite(asked: Iterator[Job]) -> Iterator[Finished]:
            for done in carry_out(islice(asked, count)):
                sizes.append(len(done.keys))
                yield done

        ledger = Path(tempfile.mkdtemp()) / "samples.tsv"
        stream = Stream(self.jobs, consumer.batch, ledger, Position())
        keys, cpu, begun = list[str](), cpu_seconds(), time.time()
        first = 0.0
        for number, samples in enumerate(stream.batches(finite)):
            since = time.time()
            first = first or since - begun
            consumer.train(samples)
            took(since, number)
            keys += stream.keys
            if len(sizes) == count and sum(sizes) - len(keys) < consumer.batch:
                break
        seconds, cpu = time.time() - begun, cpu_seconds() - cpu
        return Run(seconds, keys, [], cpu / seconds, cpu, first)


def alone(work: Work, consumer: Consumer) -> Run:
    """One process makes and trains in turn."""
    spans: list[Span] = []

    def in_turn(asked: Iterator[Job]) -> Iterator[Finished]:
        for number, job in enumerate(asked):
            since = time.time()
            done = work.make(job)
            spans.append(Span(ALONE, MAKES, number, since, time.time()))
            yield done

    for job in work.warm():
        work.make(job)
    run = work.train(
        consumer,
        in_turn,
        lambda since, number: spans.append(Span(ALONE, TRAINS, number, since, time.time())),
    )
    return dataclasses.replace(run, spans=spans)


def apart(work: Work, consumer: Consumer, count: int) -> Run:
    """Producers make what this process trains on."""
    with ray_cluster("local", count, STORE) as ray:
        producers = Producers(ray, work.make, AHEAD)
        while len(producers.processes) < count:
            list(producers.made(iter(work.warm())))
        producers.spans.clear()
        run = work.train(consumer, producers.made, lambda since, number: None)
        producers.note_training()
        return dataclasses.replace(run, spans=list(producers.spans))


def cpu_seconds() -> float:
    """Of this process and all that it started and that live; on Linux."""
    rows = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(") ")[2].split()
            rows[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    own = {os.getpid()}
    while more := {process for process, (parent, _) in rows.items() if parent in own} - own:
        own |= more
    ticks = sum(rows[process][1] for process in own)
    return ticks / os.sysconf("SC_CLK_TCK")


def told(name: str, run: Run) -> str:
    """A line: how fast, and who did what."""
    shares = [
        f"{who} {' '.join(f'{what} {share_of(run.spans, who, what):.2f}' for what in kinds)}"
        for who in sorted({span.who for span in run.spans})
        if (kinds := [x for x in (MAKES, TRAINS, WAITS) if share_of(run.spans, who, x) > 0.005])
    ]
    return (
        f"{name}: {len(run.keys)} samples in {run.seconds:.1f} s, {rate(run):.2f} samples/s, "
        f"{run.cpu:.1f} CPU seconds, {run.cores:.2f} cores busy, first sample after "
        f"{run.first / run.seconds:.2f}; {'; '.join(shares)}"
    )


def rate(run: Run) -> float:
    """Samples a second."""
    return len(run.keys) / run.seconds


def main() -> None:
    """All rounds, then the middle one of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--windows", type=int, default=2, help=f"of {WINDOW} clips and lambdas")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, in who trains")
    parser.add_argument("--step-seconds", type=float, default=0.0)
    parser.add_argument("--fetch-seconds", type=float, default=0.0)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["RAY_worker_niceness"] = (
        "0"  # Ray's 15 would let other work take the producers' cores
    )
    work = Work(options.folder, options.windows, options.fetch_seconds)
    ways: dict[str, Callable[[Work, Consumer], Run]] = {
        ALONE: alone,
        APART: lambda work, consumer: apart(work, consumer, options.producers),
    }
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for number in range(options.rounds):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            run = ways[name](work, Consumer(options.batch, options.step_seconds))
            runs[name].append(run)
            print(told(name, run), flush=True)
    every = [run for of_way in runs.values() for run in of_way]
    print(
        "all trained on the same samples in the same order:",
        all(r.keys == every[0].keys for r in every),
    )
    middle = {name: sorted(of_way, key=rate)[len(of_way) // 2] for name, of_way in runs.items()}
    gain = rate(middle[APART]) / rate(middle[ALONE])
    print(
        ", ".join(f"{name} {rate(run):.2f}" for name, run in middle.items()),
        f"samples/s: {gain:.2f} times",
    )
    if options.picture:
        titles = {
            f"{name}: {rate(run):.2f} samples a second": run.spans for name, run in middle.items()
        }
        draw_timeline(titles, options.picture)


if __name__ == "__main__":
    main()
