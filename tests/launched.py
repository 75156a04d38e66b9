"""Runs of `gsvc train shards` on processes that import nothing anew: they are forked.

A process of torchrun takes seconds to import torch. These are begun by torchrun's own agent, which
also starts them again when one is killed, as copies of a process that has imported everything.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import gsvc.decoders.training.sharded.feeds
import gsvc.decoders.training.sharded.run  # noqa: F401 - before the first fork
from gsvc.codec.command.main import main
from gsvc.decoders.training.standalone import workers

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
