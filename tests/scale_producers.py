"""Producers of `gsvc train shards` under faults, and what they bring.

    python tests/scale_producers.py faults SHARDS
    python tests/scale_producers.py speed SHARDS --steps 12

`faults`: takes every batch of two epochs from producers while 30 faults come: a producer killed,
one that joins late, a consumer that falls behind. Says whether each sample came in its place.
`speed`: samples a second of a colocated process, which decodes and encodes before each step, and
of two producers and one consumer on the same machine, and how busy each was.
"""

import argparse
import dataclasses
import random
import time
from collections.abc import Iterator
from pathlib import Path

from gsvc.decoders.training.sharded.anew import Anew, FromShards
from gsvc.decoders.training.sharded.order import Order, Place
from gsvc.decoders.training.sharded.producers import Producers
from gsvc.decoders.training.sharded.samples import ShardSamples
from gsvc.eval.cluster import ray_cluster

STORE = 150_000_000


def faults(shards: Path, batch: int, count: int) -> None:
    """Inject them, and account for every sample."""
    samples = ShardSamples(shards)
    order = Order(samples.counts, batch, seed=0)
    steps = 2 * order.samples // batch
    places = list(order.batches(0, steps, 0, 1))
    rng, done, kinds = random.Random(0), 0, {"killed": 0, "late": 0, "slow": 0}
    with ray_cluster("local", 3, STORE) as ray:
        producers = Producers(ray, FromShards(shards), ahead=6, most=2)
        asked = list(range(0, steps, max(1, steps // count)))[:count]
        wrong = most = 0
        for step, pack in enumerate(producers.packs(iter(places))):
            expected = FromShards(shards)(places[step]).stacks["truth"]
            wrong += not bool((pack.stacks["truth"] == expected).all())
            most = max(most, len(producers._asked))
            done += 1
            if step in asked:
                kind = list(kinds)[sum(kinds.values()) % len(kinds)]
                kinds[kind] += 1
                print(f"  {kind} at batch {step}", flush=True)
                if kind == "killed":
                    ray.kill(rng.choice(list(producers.actors.values())), no_restart=True)
                elif kind == "late":
                    producers._most = 3 - producers._most % 2  # 2 to 3, and back
                else:
                    time.sleep(0.5)
    taken = [samples.key(place) for step in range(done) for place in places[step]]
    counts = {taken.count(key) for key in set(taken)}
    print(
        f"{sum(kinds.values())} faults {kinds}: {done} of {steps} batches, {len(taken)} samples, "
        f"each {sorted(counts)} times in 2 epochs, {wrong} batches wrong or out of order, "
        f"{most} asked for at once at most, {producers._started} producers in all"
    )


def busy(events: list[dict[str, object]], seconds: float) -> dict[str, float]:
    """Share of the time that each one's spans take."""
    sums: dict[str, float] = {}
    for event in events:
        sums[str(event["tid"])] = sums.get(str(event["tid"]), 0.0) + float(str(event["dur"]))
    return {who: round(total / 1e6 / seconds, 2) for who, total in sums.items()}


def speed(shards: Path, batch: int, steps: int) -> None:
    """Both ways, side by side."""
    import torch

    from gsvc.decoders.training.bundle import read_recipes
    from gsvc.decoders.training.layouts.trial import Trial
    from gsvc.decoders.training.sharded.streamed import Streamed
    from gsvc.decoders.training.standalone.pack import Pack
    from gsvc.decoders.training.standalone.recipe import read_recipe

    torch.set_num_threads(1)
    small = dataclasses.replace(
        read_recipe("medium", read_recipes()), network={"size": "nano"}, side=64
    )
    trial = Trial(small, torch.device("cpu"))
    learner = trial.learner()
    task = learner.task
    order = Order(ShardSamples(shards).counts, batch, seed=0)

    def train(packs: Iterator[Pack]) -> tuple[float, float]:
        """Seconds in all, and of training."""
        learner.task = Streamed(task, packs, trial.device)
        begun, spent = time.monotonic(), 0.0
        for pack in packs:
            learner.task = Streamed(task, iter([pack]), trial.device)
            step = time.monotonic()
            learner.learn(trial.stage, batch, 1e-4)
            spent += time.monotonic() - step
        return time.monotonic() - begun, spent

    def places() -> Iterator[list[Place]]:
        return order.batches(0, steps, 0, 1)

    make = Anew(shards)
    total, spent = train(make(each) for each in places())
    print(f"colocated: {batch * steps / total:.2f} samples/s, training {spent / total:.2f}")
    with ray_cluster("local", 2, STORE) as ray:
        producers = Producers(ray, Anew(shards), ahead=6)
        packs = producers.packs(order.batches(0, steps + 2, 0, 1))
        next(packs), next(packs)  # producers have started
        producers.events.clear()
        total, spent = train(packs)
    print(
        f"two producers, one consumer: {batch * steps / total:.2f} samples/s, "
        f"training {spent / total:.2f}, busy {busy(producers.events, total)}"
    )


def main() -> None:
    """One of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("faults", "speed"))
    parser.add_argument("shards", type=Path)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    if options.what == "faults":
        faults(options.shards, options.batch, options.faults)
    else:
        speed(options.shards, options.batch, options.steps)


if __name__ == "__main__":
    main()
