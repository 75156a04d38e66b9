"""The job: trains the restorer on one core at the lowest priority, for as long as it may.

`tools/train_beside.py` writes it as one file, which needs Python, torch, numpy and Pillow.
"""

import argparse
import csv
import json
import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from beside.checkpoint import (
    BEFORE,
    CHECKPOINT,
    NewerCheckpoint,
    newest_checkpoint,
    write_checkpoint,
)
from beside.distances import (
    WIDTHS,
    WassersteinDistortion,
    fidelity,
    luma,
    means_distance,
    psnr,
    structural,
)
from beside.pool import SamplePool
from gsvc.decoders.keyframes.compact.restorer import (
    FAITHFUL,
    MIDDLE,
    TEXTURED,
    Restorer,
    best_mixture,
    conditions_of,
    mixed,
)
from gsvc.decoders.training.standalone.samples import SampleError, StoredSample
from gsvc.decoders.training.standalone.tensors import read_tensors

LOG, SCORES, PROCESS = "log.csv", "scores.csv", "process.json"
_SAVE_EVERY, _LOG_EVERY, _SCORE_EVERY = 600.0, 60.0, 3600.0
_POOL, _RENEW_EVERY = 2048, 40
"""Samples in memory, and steps after which another shard comes in."""
_HELD = 48
_WARM_UP, _RATE_HALVES = 200, 6000
_AVERAGE, _AVERAGE_EVERY = 0.999, 8
_LARGEST_GRADIENT = 1.0
_MOST_BAD = 10
_MOMENTS = "exp_avg", "exp_avg_sq"
_GAIN_UNIT = 255 / 1.75

Pictures = NDArray[np.uint8]
_TEXTURE_MEANS = 1, 2
_TEXTURE_EVERY = 3


@dataclass(frozen=True)
class JobSettings:
    """What a job may be told."""

    batch: int = 2
    crop: int = 64
    rate: float = 1e-3
    texture_from: int = 8000
    """Step from which texture is trained too."""
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

        Raises SampleError without samples, ValueError for a checkpoint of a newer gsvc, OSError
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
        self.dice = np.random.default_rng((settings.seed, self.progress.step))
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
        self.network.load_state_dict(state["weights"])
        self.average.load_state_dict(state["average"])
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
        loss, terms = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_GRADIENT)
        if bool(torch.isfinite(norm)):
            self._bad = 0
            for optimizer in self.optimizers:
                optimizer.step()
            self._follow()
        else:
            self._bad += 1
            if self._bad == _MOST_BAD:
                raise ValueError(f"the loss was no number {_MOST_BAD} times in a row: {terms}")
        self.progress.step += 1
        self.progress.samples += len(batch["truth"])
        return terms

    def _follow(self) -> None:
        step = self.progress.step
        if step % _AVERAGE_EVERY:
            return
        share = 1 - min(_AVERAGE, (1 + step) / (20 + step)) ** _AVERAGE_EVERY
        with torch.no_grad():
            averages: list[Tensor] = list(self.average.parameters())
            torch._foreach_lerp_(averages, list(self.network.parameters()), share)

    def _batch(self, samples: Sequence[StoredSample]) -> dict[str, Tensor]:
        """Random cuts, turned and mirrored."""
        crop, given, truth = self.settings.crop, [], []
        for sample in samples:
            pair = np.concatenate([sample.stacks["given"][0], sample.stacks["truth"][0]], 2)
            top, left = (int(self.dice.integers(length - crop + 1)) for length in pair.shape[:2])
            cut = pair[top : top + crop, left : left + crop]
            cut = np.rot90(cut, int(self.dice.integers(4)))
            cut = cut[:, ::-1] if self.dice.random() < 0.5 else cut
            given.append(cut[..., :-3])
            truth.append(cut[..., -3:])
        return as_batch(np.stack(given), np.stack(truth), samples)

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
        """Of each crop's best mixture and of the fidelity end; later of the texture end too."""
        picture, truth = batch["picture"], batch["truth"]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low):
            residuals = self.network(picture, batch["gain"], batch["conditions"])
        residuals = residuals.float()
        small, small_residuals, goal = halved(picture), halved(residuals), halved(truth)
        weights = best_mixture(small, small_residuals, goal)
        ends = torch.cat([mixed(small, small_residuals, weights), small + small_residuals[:, 0]])
        best, faithful = fidelity(ends, goal.repeat(2, 1, 1, 1)).view(2, -1).mean(1)
        terms = {"best": best, "faithful": faithful}
        step = self.progress.step
        if step >= self.settings.texture_from and step % _TEXTURE_EVERY == 0:
            terms["texture"] = self._textured(picture, residuals, truth)
        loss = torch.stack(list(terms.values())).sum()
        told = {name: float(term.detach()) for name, term in terms.items()}
        return loss, {**told, "loss": float(loss.detach())}

    def _textured(self, picture: Tensor, residuals: Tensor, truth: Tensor) -> Tensor:
        """Of a mixture drawn between both ends: the nearer to texture, the wider it looks."""
        share = torch.from_numpy(self.dice.random(len(picture)).astype(np.float32))
        weights = torch.stack([1 - share, share, torch.zeros_like(share)], 1)
        # The fidelity output learns nothing here: else it, too, is drawn towards texture.
        fixed = torch.cat([residuals[:, :1].detach(), residuals[:, 1:]], 1)
        shown = mixed(picture, fixed, weights)
        wide = self.texture(shown, truth, share * (WIDTHS - 1))
        small, goal = halved(shown), halved(truth)
        near = 5 * means_distance(small, goal, _TEXTURE_MEANS)
        terms: Tensor = near + share * 0.3 * wide + (1 - share) * fidelity(small, goal)
        return terms.mean()

    def scores(self) -> dict[str, dict[str, float]]:
        """Of held-out samples with averaged weights, by mixture; empty without any."""
        with suppress(SampleError):
            self.held.fill()
        samples = self.held.all()[:_HELD]
        sums: dict[str, NDArray[np.float64]] = {}
        for first in range(0, len(samples), 8):
            part = samples[first : first + 8]
            given, truth = (np.stack([s.stacks[x][0] for s in part]) for x in ("given", "truth"))
            for name, row in self._scored(as_batch(given, truth, part)).items():
                sums[name] = sums.get(name, np.zeros(4)) + row
        columns = "psnr", "ssim_half", "ssim_quarter", "texture"
        return {n: dict(zip(columns, row / len(samples), strict=True)) for n, row in sums.items()}

    @torch.no_grad()
    def _scored(self, batch: dict[str, Tensor]) -> dict[str, NDArray[np.float64]]:
        picture, truth = batch["picture"], batch["truth"]
        residuals = self.average(picture, batch["gain"], batch["conditions"]).float()
        mixtures = {
            "none": torch.zeros(3),
            "faithful": torch.tensor(FAITHFUL),
            "middle": torch.tensor(MIDDLE),
            "texture": torch.tensor(TEXTURED),
            "best": best_mixture(halved(picture), halved(residuals), halved(truth)),
        }
        width = torch.full((len(picture),), 3.0)
        found = {}
        for name, weights in mixtures.items():
            shown = mixed(picture, residuals, weights).clamp(-1, 1)
            pair = luma(shown), luma(truth)
            rows = [psnr(shown, truth)]
            for _ in range(2):
                pair = halved(pair[0]), halved(pair[1])
                rows.append(structural(*pair))
            found[name] = (
                torch.stack([*rows, self.texture(shown, truth, width)]).double().sum(1).numpy()
            )
        return found


def halved(pictures: Tensor) -> Tensor:
    """Means over 2x2 pixels of (..., H, W)."""
    flat = functional.avg_pool2d(pictures.reshape(-1, 1, *pictures.shape[-2:]), 2)
    return flat.view(*pictures.shape[:-2], *flat.shape[-2:])


class KernelMuon(torch.optim.Optimizer):
    """Muon (Jordan et al., 2024) for kernels of one shape: momentum made orthogonal, all at once.

    torch.optim.Muon computes in bfloat16, one kernel after the other: 14 times as long without
    AVX-512 BF16.
    """

    def __init__(self, kernels: Iterable[Tensor], lr: float) -> None:
        super().__init__(kernels, {"lr": lr, "momentum": 0.95, "decay": 0.01})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move each kernel by about `lr` root mean square, as Adam does."""
        for group in self.param_groups:
            kernels, momentum = group["params"], group["momentum"]
            for kernel in kernels:
                state = self.state[kernel]
                state.setdefault("momentum_buffer", torch.zeros_like(kernel))
                state["momentum_buffer"].lerp_(kernel.grad, 1 - momentum)
            buffers = torch.stack([self.state[kernel]["momentum_buffer"] for kernel in kernels])
            gradients = torch.stack([kernel.grad for kernel in kernels])
            moves = _orthogonal(gradients.lerp(buffers, momentum))
            moves *= 0.2 * max(moves.shape[1:]) ** 0.5
            for kernel, move in zip(kernels, moves, strict=True):
                kernel.mul_(1 - group["lr"] * group["decay"]).sub_(move, alpha=group["lr"])


def _orthogonal(matrices: Tensor) -> Tensor:
    """Nearly orthogonal rows, by five Newton-Schulz iterations of Muon's.

    All factors are polynomials of one small symmetric matrix, so that alone is iterated.
    """
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-12)
    gram = x @ x.transpose(1, 2)
    one = torch.eye(gram.shape[1], device=x.device)
    whole, (a, b, c) = one.expand_as(gram), (3.4445, -4.7750, 2.0315)
    for _ in range(5):
        factor = a * one + b * gram + c * gram @ gram
        whole, gram = factor @ whole, factor @ gram @ factor
    rows: Tensor = whole @ x
    return rows


def optimizers_of(network: Restorer, rate: float) -> tuple[KernelMuon, torch.optim.AdamW]:
    """Muon for the kernels of the blocks, Adam for the rest."""
    named = dict(network.named_parameters())
    kernels = [value for name, value in named.items() if name.endswith(".wide")]
    rest = [value for name, value in named.items() if not name.endswith(".wide")]
    adam = torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=1e-4, fused=True)
    return KernelMuon(kernels, rate), adam


def as_batch(
    given: Pictures, truth: Pictures, samples: Sequence[StoredSample]
) -> dict[str, Tensor]:
    """Tensors of crops: `given` uint8 (B, H, W, 4), its texture gain last, `truth` (B, H, W, 3)."""
    pictures = torch.from_numpy(np.ascontiguousarray(given)).permute(0, 3, 1, 2).float()
    goal = torch.from_numpy(np.ascontiguousarray(truth)).permute(0, 3, 1, 2).float()
    column = {
        name: torch.tensor([float(s.numbers[name]) for s in samples])
        for name in ("quantizer", "size", "layer")
    }
    return {
        "picture": pictures[:, :3] / 127.5 - 1,
        "gain": pictures[:, 3:] / _GAIN_UNIT,
        "truth": goal / 127.5 - 1,
        "conditions": conditions_of(column["quantizer"], column["size"], column["layer"].long()),
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
    except (NewerCheckpoint, SampleError, OSError, ValueError) as error:
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
