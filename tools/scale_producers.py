"""Producers of `gsvc train shards` under faults; what they bring, tools/scale_speed.py measures.

    python tools/scale_producers.py SHARDS
    python tools/scale_producers.py FOLDER --anew

Takes every batch of some epochs from producers while 30 faults come: a producer killed, one that
joins late, a consumer that falls behind. Says whether each sample came in its place. With `--anew`
producers decode and encode the sources of FOLDER, which need only be surveyed.
"""

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gsvc.decoders.training.feeds import (
    Jobs,
    Order,
    Position,
    Producers,
    ShardSamples,
    Stream,
    make_samples,
    read_batch,
)
from gsvc.decoders.training.samples import Sample
from gsvc.eval.bench.workers import ray_cluster

STORE = 150_000_000


class Faults:
    """Injected at evenly spread batches."""

    def __init__(
        self, ray: Any, producers: Producers[Any, Any], steps: int, count: int, epochs: int
    ) -> None:
        self.epochs = epochs
        self._ray, self._producers, self._rng = ray, producers, random.Random(0)
        self._at = set(list(range(0, steps, max(1, steps // count)))[:count])
        self.kinds = {"killed": 0, "late": 0, "slow": 0}
        self._core: Any = None
        self._hold()

    def _hold(self) -> None:
        """Keep a core from producers, or leave it to one that joins."""
        if self._core is not None:
            self._ray.kill(self._core)
            self._core = None
        else:
            self._core = self._ray.remote(num_cpus=1)(Idle).remote()
            self._ray.get(self._core.ready.remote())

    def after(self, step: int) -> None:
        """What befalls after a batch was taken."""
        if step not in self._at:
            return
        kind = list(self.kinds)[sum(self.kinds.values()) % len(self.kinds)]
        alive = [process for _, process in self._producers.processes if is_alive(process)]
        if kind == "killed" and not alive:
            self._at.add(step + 1)  # all are dead, and nobody has noticed: after the next one
            return
        self.kinds[kind] += 1
        print(f"  {kind} at batch {step}", flush=True)
        if kind == "killed":
            os.kill(self._rng.choice(alive), signal.SIGKILL)
        elif kind == "late":
            self._hold()
        else:
            time.sleep(0.5)

    def told(self, batches: int, keys: list[str], wrong: int) -> None:
        """The account."""
        print(
            f"{sum(self.kinds.values())} faults {self.kinds}: {batches} batches, "
            f"{len(keys)} samples, each {sorted(set(Counter(keys).values()))} times in "
            f"{self.epochs} epochs, {wrong} batches wrong or out of order, "
            f"{len(self._producers.processes)} producers in all"
        )


class Idle:
    """An actor that takes a core and does nothing with it."""

    def ready(self) -> None:
        """It is there."""


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return False


def shard_faults(shards: Path, batch: int, count: int, epochs: int) -> None:
    """Batches read from shards."""
    samples = ShardSamples(shards)
    order = Order(samples.counts, batch, seed=0)
    steps = epochs * order.samples // batch
    places = list(order.batches(0, steps, 0, 1))
    with ray_cluster("local", 3, STORE) as ray:
        producers = Producers(ray, partial(read_batch, shards), ahead=6)
        befalls, wrong, done = Faults(ray, producers, steps, count, epochs), 0, 0
        for step, pack in enumerate(producers.made(iter(places))):
            expected = read_batch(shards, places[step]).stacks["truth"]
            wrong += not bool((pack.stacks["truth"] == expected).all())
            done += 1
            befalls.after(step)
        taken = [
            str(samples.rows(place[0])[place[1]]["key"])
            for step in range(done)
            for place in places[step]
        ]
        befalls.told(done, taken, wrong)


def source_faults(folder: Path, batch: int, count: int, epochs: int) -> None:
    """Batches made of sources; the same batches made here are what they should be."""
    jobs, ledger = Jobs(folder), Path(tempfile.mkdtemp()) / "samples.tsv"
    make = partial(make_samples, jobs.settings)
    once = [make(job) for number in range(jobs.windows) for job in jobs.window(0, number)]
    known = {key: x for one in once for key, x in zip(one.keys, one.samples, strict=True)}
    steps = epochs * len(known) // batch
    with ray_cluster("local", 3, STORE) as ray:
        producers = Producers(ray, make, ahead=6)
        befalls, wrong, keys = Faults(ray, producers, steps, count, epochs), 0, list[str]()
        stream = Stream(jobs, batch, ledger, Position())
        for step, samples in zip(range(steps), stream.batches(producers.made), strict=False):
            expected = [known[key] for key in stream.keys]
            wrong += not all(map(is_same, samples, expected))
            keys += stream.keys
            befalls.after(step)
        befalls.told(steps, keys, wrong)
    rows = [line.split("\t") for line in ledger.read_text().splitlines()[1:]]
    done = Counter((row[0], row[2], row[3]) for row in rows)
    print(
        f"ledger: {len(rows)} jobs, each {sorted(set(done.values()))} times an epoch, "
        f"{sum(int(row[4]) for row in rows)} samples, {len(known)} an epoch"
    )


def is_same(one: Sample, other: Sample) -> bool:
    """Whether two samples are equal in all that they hold."""
    a, b = ({**each.stacks, **each.arrays} for each in (one, other))
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def main() -> None:
    """Carry it out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    take = source_faults if options.anew else shard_faults
    take(options.shards, options.batch, options.faults, options.epochs)


if __name__ == "__main__":
    main()
