"""Trains the compact refiner on prepared pairs, in one process or in several (see `workers`)."""

import csv
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from numpy.random import Generator, default_rng
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from gsvc.codec.errors import InputError
from gsvc.decoders.refiners.compact.levels import noise_levels, walk
from gsvc.decoders.refiners.compact.network import SIZES, CompactRefiner
from gsvc.decoders.training.losses import PerceptualDistance, charbonnier, texture_distance
from gsvc.decoders.training.moving import moved
from gsvc.decoders.training.pool import Batch, Pool
from gsvc.decoders.training.settings import TrainSettings
from gsvc.decoders.training.workers import rank
from gsvc.decoders.weights import fit_weights

_WARM_UP = 100
_AVERAGE = 0.999
_LARGEST_GRADIENT = 0.5
_SAVE_EVERY = 200
_FIRST_STEPS = 0.85
_APART = 1_000_003
"""Between the seeds of processes."""
_MOVED = 0.5
_COLUMNS = ("step", "seconds", "sigma", "charbonnier", "texture", "perceptual", "gain_db", "norm")


class Trainer:
    """Holds everything that a step changes; `save` and `resume` carry it over an interruption."""

    def __init__(self, data: Path, run: Path, settings: TrainSettings) -> None:
        """`data`: folder of crops; `run`: where `checkpoint.pt`, `loss.csv` and the weights go."""
        torch.manual_seed(settings.seed)
        self.settings, self.step, self.seconds = settings, 0, 0.0
        self._data, self._run = data, run
        self._device = torch.device(settings.device)
        network = CompactRefiner(**SIZES[settings.size], noise=settings.noise)
        self.model = network.to(self._device, memory_format=torch.channels_last)
        self._network: Any = torch.compile(self.model) if settings.compiled else self.model
        if distributed.is_initialized():
            self._network = DistributedDataParallel(self._network)
        self._average = {k: v.clone() for k, v in self.model.state_dict().items()}
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), settings.rate, weight_decay=1e-4
        )
        self._perceptual = PerceptualDistance(self._device) if settings.perceptual else None

    @property
    def weights(self) -> Path:
        """The averaged weights, once saved."""
        return self._run / "compact.safetensors"

    def resume(self) -> None:
        """Go on from the run's checkpoint. Raises InputError when it has none."""
        path = self._run / "checkpoint.pt"
        if not path.exists():
            raise InputError(f"{path} is missing: there is nothing to resume")
        kept = torch.load(path, map_location=self._device, weights_only=True)
        self.model.load_state_dict(kept["model"])
        self._optimizer.load_state_dict(kept["optimizer"])
        self._average, self.step, self.seconds = kept["average"], kept["step"], kept["seconds"]

    def begin_from(self, weights: Path) -> None:
        """Start from a `.safetensors` file of this size, or of one that takes no drawings.

        Raises MissingModelError for the weights of another network.
        """
        grow_weights(self.model, weights)
        self._average = {k: v.clone() for k, v in self.model.state_dict().items()}

    def train(self) -> Iterator[int]:
        """Train to the end; in the first process, yields the number of steps at each save."""
        self._run.mkdir(parents=True, exist_ok=True)
        seed = self.settings.seed + self.step + _APART * rank()
        pool, rng = Pool(self._data, seed), default_rng(seed)
        generator = torch.Generator().manual_seed(seed)
        start = time.monotonic() - self.seconds
        path = self._run / "loss.csv"
        is_new = self.step == 0
        is_first = rank() == 0
        with (path if is_first else Path(os.devnull)).open(
            "w" if is_new else "a", newline=""
        ) as file:
            log = csv.writer(file)
            if is_new:
                log.writerow(_COLUMNS)
            while self.step < self.settings.steps:
                drawn = vars(pool.batch(self.settings.batch)).values()
                batch = Batch(*(part.to(self._device) for part in drawn))
                with self._fast():
                    state, sigma = training_state(self.model, batch, rng, generator)
                values = self._learn(batch, state, sigma, rng)
                self.step += 1
                self.seconds = time.monotonic() - start
                log.writerow([self.step, f"{self.seconds:.1f}", f"{sigma[0]:.2f}", *values])
                is_due = self.step % _SAVE_EVERY == 0 or self.step == self.settings.steps
                if is_due and is_first:
                    file.flush()
                    self.save()
                    yield self.step

    def _fast(self) -> torch.autocast:
        return torch.autocast(
            self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"
        )

    def _learn(self, batch: Batch, state: Tensor, sigma: Tensor, rng: Generator) -> list[str]:
        with self._fast():
            estimate = self._network(state, sigma, batch.given, batch.scalars).float()
        shown, picture, goal = estimate, batch.given[:, :3], batch.truth
        if rng.random() < _MOVED:
            shown, picture, goal = moved((shown, picture), goal, rng)
        distance = charbonnier(shown, goal)
        texture = texture_distance(shown, picture, goal)
        perceptual = torch.zeros((), device=self._device)
        if self._perceptual is not None:
            seen = slice(0, -(-len(estimate) // 2))  # half of them: it costs as much as the rest
            with self._fast():
                perceptual = self._perceptual(shown[seen], goal[seen], rng)
        settings = self.settings
        loss = distance + settings.texture * texture + settings.perceptual * perceptual
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), _LARGEST_GRADIENT)
        for group in self._optimizer.param_groups:
            group["lr"] = settings.rate * self._schedule()
        self._optimizer.step()
        self._follow()
        before = (batch.given[:, :3] - batch.truth).square().mean()
        gain = 10 * torch.log10(before / (estimate - batch.truth).square().mean())
        return [f"{float(v.detach()):.5f}" for v in (distance, texture, perceptual, gain, norm)]

    def _schedule(self) -> float:
        warm = min(1.0, (self.step + 1) / _WARM_UP)
        return warm * (
            0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * self.step / self.settings.steps))
        )

    def _follow(self) -> None:
        share = 1 - min(_AVERAGE, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                self._average[name].lerp_(value, share)

    def save(self) -> None:
        """Write the checkpoint, and the averaged weights as they ship."""
        kept = {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "average": self._average,
            "step": self.step,
            "seconds": self.seconds,
        }
        torch.save(kept, self._run / "checkpoint.part")
        (self._run / "checkpoint.part").rename(self._run / "checkpoint.pt")
        weights = {k: v.contiguous() for k, v in self._average.items()}
        save_file(weights, self._run / "compact.part")
        (self._run / "compact.part").rename(self.weights)
        config = {k: v for k, v in self.model.config.items() if not k.startswith("_")}
        self.weights.with_suffix(".json").write_text(json.dumps(config, indent=2) + "\n")
        (self._run / "settings.json").write_text(json.dumps(asdict(self.settings), indent=2) + "\n")


def grow_weights(network: CompactRefiner, weights: Path) -> None:
    """Load weights of a network with fewer inputs or outputs; what is new starts at zero.

    Errors as of `fit_weights`.
    """
    kept, grown = load_file(weights), network.state_dict()
    for name, value in grown.items():
        if name in kept and name.split(".")[0] in ("enter", "leave"):
            room = [(0, max(0, n - m)) for n, m in zip(value.shape, kept[name].shape, strict=True)]
            kept[name] = functional.pad(kept[name], [n for pair in reversed(room) for n in pair])
    fit_weights(network, kept, weights)


def training_state(
    model: CompactRefiner, batch: Batch, rng: Generator, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A state to learn from and its sigma.

    Mostly the start, sigma 1; else a state on the way of 2 or 4 steps, or rarely between start and
    truth.
    """
    truth, picture = batch.truth, batch.given[:, :3]
    noise = torch.randn(truth.shape, generator=generator) * model.config.noise
    state = picture + noise.to(picture.device)
    if rng.random() < _FIRST_STEPS:
        return state, torch.ones(len(truth), device=truth.device)
    if rng.random() < 0.25:
        sigma = float(rng.uniform(0.15, 0.95))
        state = (1 - sigma) * truth + sigma * state
    else:
        steps = 2 if rng.random() < 0.6 else 4
        done = int(rng.integers(1, steps))
        sigmas = noise_levels(steps)
        sigma = sigmas[done]

        def denoise(at: Tensor, level: Tensor) -> Tensor:
            estimate: Tensor = model(at, level, batch.given, batch.scalars)
            return estimate

        with torch.no_grad():
            state = walk(denoise, state, sigmas[:done], sigma)
    return state.float(), torch.full((len(truth),), sigma, device=truth.device)
