"""The job: trains the restorer on one core at the lowest priority, for as long as it may.

`tools/train_beside.py` writes it as one file, which needs Python, torch, numpy, Pillow
and safetensors.
"""

import argparse
import csv
import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beside.checkpoint import BEFORE, CHECKPOINT, newest_checkpoint, write_checkpoint
from beside.distances import WassersteinDistortion
from beside.learning import (
    COLUMNS,
    Batch,
    as_batch,
    crops_of,
    follow,
    losses,
    numbers_of,
    optimizers_of,
    scored,
    texture_loss,
)
from beside.pool import SamplePool
from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.training.samples import Sample
from gsvc.decoders.training.tensors import read_tensors

LOG, SCORES, PROCESS = "log.csv", "scores.csv", "process.json"
_SAVE_EVERY, _LOG_EVERY, _SCORE_EVERY = 600.0, 60.0, 3600.0
_POOL, _RENEW_EVERY = 2048, 40
"""Samples in memory, and steps after which another shard comes in."""
_HELD = 48
_WARM_UP, _RATE_HALVES = 200, 6000
_AVERAGE_EVERY = 8
_LARGEST_GRADIENT = 1.0
_MOST_BAD = 10
_MOMENTS = "exp_avg", "exp_avg_sq"
_TEXTURE_EVERY = 3


@dataclass(frozen=True)
class JobSettings:
    """What a job may be told."""

    batch: int = 16
    crop: int = 96
    rate: float = 2e-5
    """Small, since it goes on from weights of a GPU: ten times that with two crops of 64 a step
    made texture worse. 1e-3 to begin anew."""
    texture_from: int = 0
    """Step from which texture is trained too; 8000 to begin anew."""
    seed: int = 0
    steps: int = 0
    """In all, earlier processes' too; 0: no end."""
    settle: int = 0
    """Steps before that end over which the rate falls to 0."""


@dataclass
class Progress:
    """How far the job is, over all its processes."""

    step: int = 0
    samples: int = 0
    core_seconds: float = 0.0
    seconds: float = 0.0


class Job:
    """One process of the job, on a working folder."""

    def __init__(self, folder: Path, committed: Path | None, settings: JobSettings) -> None:
        """Go on from the newest checkpoint that is whole, or begin.

        Raises InputError without samples, ValueError for a checkpoint of a newer gsvc, OSError
        without the frozen network.
        """
        self.folder, self.settings = folder, settings
        self.progress = Progress()
        self.stopped = False
        torch.manual_seed(settings.seed)
        self.network = Restorer().to(memory_format=torch.channels_last)
        self.average = Restorer().requires_grad_(False)
        self.optimizers = optimizers_of(self.network, settings.rate)
        self.texture = WassersteinDistortion(read_tensors(folder / "frozen.safetensors")[0])
        self.low = has_fast_bfloat16()
        self._go_on(committed)
        self.rng = np.random.default_rng((settings.seed, self.progress.step))
        self.pool = SamplePool(folder / "samples", _POOL, seed=self.progress.step)
        self.pool.fill()
        self.held = SamplePool(folder / "samples", _HELD, seed=0, held=True)
        self._bad = 0

    def _go_on(self, committed: Path | None) -> None:
        places = [self.folder / CHECKPOINT, self.folder / BEFORE]
        found = newest_checkpoint([*places, *([committed] if committed else [])])
        if found is None:
            self.average.load_state_dict(self.network.state_dict())
            say("a new job: no checkpoint was found")
            return
        path, state, job = found
        self.average.load_state_dict(state["average"])
        self.network.load_state_dict(state["weights"] or state["average"])
        self.progress = Progress(**job["progress"])
        for name, value in self.network.named_parameters():
            if name in state["first"]:
                self._remember(value, state["first"][name].clone(), state["second"].get(name))
        say(f"going on from step {self.progress.step} of {path}")

    def _remember(self, value: Tensor, first: Tensor, second: Tensor | None) -> None:
        """Give an optimiser the moments of a parameter."""
        muon, adam = self.optimizers
        if second is None:
            muon.state[value] = {"momentum_buffer": first}
        else:
            step = torch.tensor(float(self.progress.step))
            adam.state[value] = {"step": step, "exp_avg": first, "exp_avg_sq": second.clone()}

    def save(self) -> None:
        """Write the checkpoint; a full disk is told of, and the job goes on."""
        first, second = dict[str, Tensor](), dict[str, Tensor]()
        muon, adam = self.optimizers
        for name, value in self.network.named_parameters():
            if value in muon.state:
                first[name] = muon.state[value]["momentum_buffer"]
            elif value in adam.state:
                first[name], second[name] = (adam.state[value][x] for x in _MOMENTS)
        state = {
            "weights": dict(self.network.state_dict()),
            "average": dict(self.average.state_dict()),
            "first": first,
            "second": second,
        }
        about = {
            "step": self.progress.step,
            "progress": asdict(self.progress),
            "network": self.network.settings,
            "settings": asdict(self.settings),
        }
        try:
            write_checkpoint(self.folder, state, about)
        except OSError as error:
            say(f"step {self.progress.step} was not saved ({error}): training goes on")

    def rate(self) -> float:
        """Falls as the root of the steps, so that the job can be prolonged at any time."""
        step = self.progress.step
        warm = min(1.0, (step + 1) / _WARM_UP)
        steps, settle = self.settings.steps, self.settings.settle
        left = min(1.0, (steps - step) / settle) if settle else 1.0
        return self.settings.rate * warm * left * float((1 + step / _RATE_HALVES) ** -0.5)

    def learn(self) -> dict[str, float]:
        """One step; returns the terms of the loss.

        Without a finite gradient it changes nothing. Raises ValueError after ten such in a row.
        """
        if self.progress.step % _RENEW_EVERY == 0:
            self.pool.renew()
        batch = self._batch(self.pool.draw(self.settings.batch))
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = self.rate()
        terms = self._terms(batch)
        loss = torch.stack(list(terms.values())).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_GRADIENT)
        if bool(torch.isfinite(norm)):
            self._bad = 0
            for optimizer in self.optimizers:
                optimizer.step()
            if self.progress.step % _AVERAGE_EVERY == 0:
                follow(self.average, self.network, self.progress.step, _AVERAGE_EVERY)
        else:
            self._bad += 1
            if self._bad == _MOST_BAD:
                raise ValueError(f"the loss was no number {_MOST_BAD} times in a row: {terms}")
        self.progress.step += 1
        self.progress.samples += len(batch["truth"])
        told = {name: float(term.detach()) for name, term in terms.items()}
        return {**told, "loss": float(loss.detach())}

    def _terms(self, batch: Batch) -> dict[str, Tensor]:
        terms, residuals = losses(self.network, batch, low=self.low)
        step = self.progress.step
        if step >= self.settings.texture_from and step % _TEXTURE_EVERY == 0:
            terms["texture"] = texture_loss(self.texture, batch, residuals)
        return terms

    def _batch(self, samples: Sequence[Sample]) -> Batch:
        """Random cuts, turned and mirrored."""
        crop, cuts = self.settings.crop, []
        for both in crops_of(samples):
            top, left = (int(self.rng.integers(length - crop + 1)) for length in both.shape[1:])
            cut = both[:, top : top + crop, left : left + crop]
            cut = cut.rot90(int(self.rng.integers(4)), (1, 2))
            cuts.append(cut.flip(2) if self.rng.random() < 0.5 else cut)
        return as_batch(torch.stack(cuts), numbers_of(samples))

    def scores(self) -> dict[str, dict[str, float]]:
        """Of held-out samples with averaged weights, by mixture; empty without any."""
        with suppress(InputError):
            self.held.fill()
        samples = self.held.all()[:_HELD]
        sums: dict[str, Tensor] = {}
        for first in range(0, len(samples), 8):
            part = samples[first : first + 8]
            batch = as_batch(crops_of(part), numbers_of(part))
            for name, row in scored(self.average, self.texture, batch).items():
                sums[name] = sums.get(name, torch.zeros(len(COLUMNS))) + row
        return {
            name: dict(zip(COLUMNS, (row / len(samples)).tolist(), strict=True))
            for name, row in sums.items()
        }


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX-512 BF16 or AMX)."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def lowest_priority() -> None:
    """Give way to all else: niceness counts within a session of processes, autogroup between."""
    with suppress(OSError):
        os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="utf-8")


def say(text: str) -> None:
    """A line with the time."""
    print(f"{datetime.now(UTC):%F %T} {text}", flush=True)


class _Table:
    """A CSV file that grows; a full disk loses lines, no more."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, row: dict[str, Any]) -> None:
        try:
            is_new = not self._path.exists()
            with self._path.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(row))
                if is_new:
                    writer.writeheader()
                writer.writerow(row)
        except OSError as error:
            say(f"{self._path} was not written ({error})")


def run_job(job: Job) -> None:
    """Train up to the last step, or until it is stopped."""
    steps = job.settings.steps
    log, scores = _Table(job.folder / LOG), _Table(job.folder / SCORES)
    progress, before = job.progress, (job.progress.seconds, job.progress.core_seconds)
    start, begun_core = time.monotonic(), time.process_time()
    saved = logged = start
    scored = start - _SCORE_EVERY + _SAVE_EVERY
    logged_samples, sums, count = progress.samples, dict[str, float](), 0
    while not job.stopped and not 0 < steps <= progress.step:
        terms = job.learn()
        sums = {name: sums.get(name, 0.0) + value for name, value in terms.items()}
        count += 1
        now = time.monotonic()
        progress.seconds = before[0] + now - start
        progress.core_seconds = before[1] + time.process_time() - begun_core
        if now - logged >= _LOG_EVERY:
            speed = (progress.samples - logged_samples) / (now - logged)
            log.add(_log_row(job, speed, {n: value / count for n, value in sums.items()}))
            logged, logged_samples, sums, count = now, progress.samples, {}, 0
            while job.pool.told:
                say(job.pool.told.pop())
        if now - saved >= _SAVE_EVERY:
            job.save()
            saved = time.monotonic()
        if now - scored >= _SCORE_EVERY:
            _score(job, scores)
            scored = time.monotonic()
    job.save()
    say(f"ended at step {progress.step}")


def _log_row(job: Job, speed: float, means: dict[str, float]) -> dict[str, Any]:
    progress = job.progress
    return {
        "time": f"{datetime.now(UTC):%F %T}",
        "step": progress.step,
        "samples": progress.samples,
        "samples_a_second": f"{speed:.2f}",
        "core_hours": f"{progress.core_seconds / 3600:.3f}",
        "hours": f"{progress.seconds / 3600:.3f}",
        "rate": f"{job.rate():.2e}",
        **{name: f"{means.get(name, 0.0):.4f}" for name in ("best", "faithful", "texture", "loss")},
    }


def _score(job: Job, table: _Table) -> None:
    progress = job.progress
    for name, row in job.scores().items():
        table.add(
            {
                "step": progress.step,
                "core_hours": f"{progress.core_seconds / 3600:.3f}",
                "mixture": name,
                **{column: f"{value:.5f}" for column, value in row.items()},
            }
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job. Returns 0, or 1 where it cannot go on: the line says why."""
    parser = argparse.ArgumentParser(description="Train the restorer beside all else.")
    parser.add_argument("folder", type=Path, help="working folder: samples/, frozen.safetensors")
    parser.add_argument("--committed", type=Path, help="a checkpoint to go on from, if it is newer")
    parser.add_argument("--urgent", action="store_true", help="at normal priority")
    for name, value in asdict(JobSettings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = parser.parse_args(arguments)
    if not options.urgent:
        lowest_priority()
    torch.set_num_threads(1)
    settings = JobSettings(**{name: getattr(options, name) for name in asdict(JobSettings())})
    try:
        job = Job(options.folder, options.committed, settings)
    except (OSError, ValueError) as error:
        say(f"cannot begin: {error}")
        return 1
    _note_process(options.folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(job, "stopped", True))
    kind = "bfloat16" if job.low else "float32, as this processor has no fast bfloat16"
    say(f"training in {kind}; {len(job.pool)} samples in memory")
    try:
        run_job(job)
    except ValueError as error:
        say(f"stopped: {error}; the last checkpoint is whole")
        return 1
    return 0


def _note_process(folder: Path) -> None:
    with suppress(OSError):
        about = {"pid": os.getpid(), "since": f"{datetime.now(UTC):%F %T}"}
        (folder / PROCESS).write_text(json.dumps(about))
