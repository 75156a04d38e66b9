"""Runs of `gsvc train shards` on processes that import nothing anew: they are forked.

A process of torchrun takes seconds to import torch. These are begun by torchrun's own agent, which
also starts them again when one is killed, as copies of a process that has imported everything.
"""

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import gsvc.decoders.training.feeds
import gsvc.decoders.training.loop  # noqa: F401 - before the first fork
from gsvc.codec.command.main import main
from gsvc.decoders.training import parallel as workers

_TICK = 0.02


def forget_threads() -> None:
    """To be called before the first run: a thread pool does not survive a fork."""
    torch.set_num_threads(1)


def train(
    arguments: Sequence[str], log: Path, processes: int = 1, kill_after: int = -1
) -> dict[int, float]:
    """Loss by step, of `gsvc train shards ARGUMENTS`; what it tells goes to `log`.

    `kill_after`: after this step the last process kills itself; all are started again.
    """
    known = len(_told(log))
    own = [*arguments, "--workers", "0", "--device", "cpu", "--json"]
    if processes == 1:
        child = get_context("fork").Process(target=_worker, args=(own, log, -1))
        child.start()
        child.join()
        assert child.exitcode == 0, child.exitcode
    else:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=log.stem,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=int(kill_after >= 0),
            monitor_interval=_TICK,
            start_method="fork",
        )
        elastic_launch(config, _worker)(own, log, kill_after)
    rows = _told(log)[known:]
    return {row["step"]: row["loss"] for row in rows if row["type"] == "step"}


def _worker(arguments: list[str], log: Path, kill_after: int) -> None:
    """What torchrun has each process do."""
    workers.ended = lambda code: code  # the agent waits for what this returns
    is_last = int(os.environ.get("RANK", "0")) + 1 == int(os.environ.get("WORLD_SIZE", "1"))
    if is_last and kill_after >= 0 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        threading.Thread(target=_die_after, args=(log, kill_after), daemon=True).start()
    with log.open("a") as file, redirect_stdout(file):
        assert main(["train", "shards", *arguments]) == 0


def _die_after(log: Path, step: int) -> None:
    """Wait for a step of the first process."""
    while not any(row["type"] == "step" and row["step"] >= step for row in _told(log)):
        time.sleep(_TICK)
    os.kill(os.getpid(), signal.SIGKILL)


def _told(log: Path) -> list[dict[str, Any]]:
    """What was told so far."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


RECIPE = """
base = "medium"
network = { size = "nano" }
planned = 1.0
rate = 2e-3
side = 64
[[stages]]
until = 0.5
learns = ["refiner"]
weights = { coarse = 1.0, texture = 0.3 }
[[stages]]
until = 1.0
learns = ["refiner"]
steps = { 1 = 0.5, 2 = 0.5 }
weights = { coarse = 1.0, texture = 0.3, adversary = 0.03 }
"""


class Runs:
    """Of one recipe, each in a folder of its own; the first one is the truth."""

    def __init__(self, source: Path, work: Path, more: list[str]) -> None:
        work.mkdir(parents=True, exist_ok=True)
        recipe = work / "small.toml"
        recipe.write_text(RECIPE)
        self._source, self._work = source, work
        self._more = ["--recipe", str(recipe), *more]
        self.truth = self.losses("one")
        first, *_, last = self.truth.values()
        print(f"one process: loss {first:.6f} to {last:.6f}")

    def losses(
        self, name: str, *more: str, processes: int = 1, kill_after: int = -1
    ) -> dict[int, float]:
        """By step, of a run that begins or goes on."""
        arguments = [str(self._source), str(self._work / name), *self._more, *more]
        return train(arguments, self._work / f"{name}.log", processes, kill_after)

    def tell(self, what: str, losses: dict[int, float]) -> None:
        """The largest relative difference. Every step must be there."""
        assert losses.keys() == self.truth.keys(), (losses.keys(), self.truth.keys())
        most = max(abs(losses[step] / loss - 1) for step, loss in self.truth.items())
        print(f"{what}: {most:.1e}", flush=True)


def on_shards(runs: Runs, steps: int, short: bool) -> None:
    """All layouts."""
    half, later = str(steps // 2), str(3 * steps // 4)
    fsdp = partial(runs.losses, processes=2)
    if not short:
        runs.tell("replicas on two", runs.losses("replicas", processes=2))
        killed = fsdp("killed", "--layout", "fsdp", kill_after=steps // 2)
        runs.tell("FSDP2 on two, one killed", killed)
    runs.tell("tensor parallel on two", runs.losses("tensor", "--layout", "tensor", processes=2))
    mesh = ["--layout", "fsdp", "--tensor", "2", "--stop", half]
    found = runs.losses("mesh", *mesh, processes=4, kill_after=steps // 2 - 2)
    found |= fsdp("mesh", "--layout", "fsdp", "--recompute", "--stop", later)
    runs.tell("mesh of four, one killed, then FSDP2 on two, then one", found | runs.losses("mesh"))


def on_producers(runs: Runs, half: int) -> None:
    """Samples of sources."""
    shared = runs.losses("two", "--stop", str(half), processes=2)
    runs.tell("two who train, gone on with", shared | runs.losses("two", processes=2))


def compare() -> None:
    """Carry it all out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--producers", metavar="ADDRESS")
    parser.add_argument("--short", action="store_true", help="without replicas, FSDP2")
    options = parser.parse_args()
    forget_threads()
    more = ["--batch", str(options.batch), "--steps", str(options.steps)]
    if options.producers:
        more += ["--producers", options.producers, "--anew"]
        on_producers(Runs(options.source, options.work, more), options.steps // 2)
    else:
        more += ["--save-every", str(max(1, options.steps // 6))]
        on_shards(Runs(options.source, options.work, more), options.steps, options.short)


if __name__ == "__main__":
    compare()
