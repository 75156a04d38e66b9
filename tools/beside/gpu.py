"""Trains the restorer on a GPU: its memory holds all samples, and the rate falls by the clock.

`python tools/train_beside.py gpu` writes it as one file beside the samples; it needs Python, torch,
numpy, Pillow and safetensors. Samples that come while it runs are taken too.
"""

import argparse
import csv
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from beside.checkpoint import read_checkpoint, write_averages
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
from beside.shards import read_shard
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.training.samples import SHARD_PATTERN
from gsvc.decoders.training.tensors import read_tensors

NETWORKS = {
    "restorer": ((32, 64, 96), (4, 10, 4)),
    "large": ((64, 128, 192), (8, 10, 4)),
}
"""Widths and depths by name."""
_SIDE, _ROOM, _READERS = 160, 20_000, 6
_LOOK_EVERY, _SAVE_EVERY, _LOG_EVERY = 3.0, 60.0, 15.0
_WARM_UP, _LARGEST_GRADIENT = 300, 1.0
_TEXTURE_FROM, _TEXTURE_WEIGHT = 0.02, 0.5
_HELD, _SCORED = 256, 32
_WAYS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Train for so many seconds; the result is `FOLDER/NETWORK.safetensors`."""
    parser = argparse.ArgumentParser(description="Train the restorer on a GPU.")
    parser.add_argument("folder", type=Path, help="has samples/ and frozen.safetensors")
    parser.add_argument("--network", choices=NETWORKS, default="restorer")
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--start", type=Path, help="averaged weights to begin with")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=64, help="a multiple of 8")
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    samples = Samples(options.folder / "samples", options.device)
    training = Training(options, samples)
    start = logged = saved = time.monotonic()
    while (passed := time.monotonic() - start) < options.seconds:
        terms = training.learn(passed / options.seconds)
        now = time.monotonic()
        if now - logged >= _LOG_EVERY:
            told = ", ".join(f"{name} {float(term):.4f}" for name, term in terms.items())
            print(
                f"{passed:.0f} s, step {training.step}, {len(samples)} samples: {told}", flush=True
            )
            logged = now
        if now - saved >= _SAVE_EVERY:
            training.save(passed)
            saved = now
    training.save(options.seconds)
    return 0


class Samples:
    """All samples of a folder, in the device's memory."""

    def __init__(self, folder: Path, device: str) -> None:
        self._folder, self._seen = folder, set[Path]()
        self._crops = torch.zeros(_ROOM, 7, _SIDE, _SIDE, dtype=torch.uint8, device=device)
        self._numbers = torch.zeros(_ROOM, 3, device=device)
        self._count = 0
        self.held: list[tuple[Tensor, Tensor]] = []
        self._readers = ProcessPoolExecutor(_READERS)
        self._take()
        threading.Thread(target=self._watch, daemon=True).start()

    def __len__(self) -> int:
        return self._count

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY)
            self._take()

    def _take(self) -> None:
        paths = sorted(set(self._folder.rglob(SHARD_PATTERN)) - self._seen)
        self._seen |= set(paths)
        for crops, numbers, is_held in self._readers.map(_read, paths):
            if is_held:
                self.held.append((crops, numbers))
                continue
            first, last = self._count, min(self._count + len(crops), _ROOM)
            self._crops[first:last] = crops[: last - first].to(self._crops.device)
            self._numbers[first:last] = numbers[: last - first].to(self._crops.device)
            self._count = last

    def draw(self, batch: int, side: int) -> Batch:
        """Random cuts of random samples, turned and mirrored in all eight ways."""
        device = self._crops.device
        rows = torch.randint(self._count, (batch,), device=device)
        top, left = torch.randint(0, _SIDE - side + 1, (2, batch, 1), device=device)
        reach = torch.arange(side, device=device)
        ys, xs = (top + reach)[:, :, None], (left + reach)[:, None]
        cuts = self._crops[rows[:, None, None], :, ys, xs].permute(0, 3, 1, 2)
        turned = [part.rot90(way, (2, 3)) for way, part in enumerate(cuts.chunk(_WAYS))]
        turned = [part.flip(3) if way >= 4 else part for way, part in enumerate(turned)]
        return as_batch(torch.cat(turned), self._numbers[rows])


def _read(path: Path) -> tuple[Tensor, Tensor, bool]:
    samples = read_shard(path)
    return crops_of(samples), numbers_of(samples), bool(samples[0].numbers.get("held"))


class Training:
    """A network on its way."""

    def __init__(self, options: argparse.Namespace, samples: Samples) -> None:
        self._options, self._samples = options, samples
        self._device = torch.device(options.device)
        self._low = self._device.type == "cuda"
        network = Restorer(*NETWORKS[options.network])
        self.step = 0
        if options.start:
            state, job = read_checkpoint(options.start)
            network.load_state_dict(state["average"])
            self.step = int(job["step"])
        self._average = Restorer(**network.settings).to(self._device).requires_grad_(False)
        self._average.load_state_dict(network.state_dict())
        self._network = network.to(self._device).to(memory_format=torch.channels_last)
        self._optimizers = optimizers_of(self._network, options.rate)
        frozen = read_tensors(options.folder / "frozen.safetensors")[0]
        self._texture = WassersteinDistortion(frozen).to(self._device)
        self._begun = self.step

    def learn(self, share: float) -> dict[str, Tensor]:
        """One step. `share`: of the time that has passed, 0 to 1. Returns the terms of the loss."""
        options = self._options
        rate = options.rate * min(1.0, (self.step - self._begun + 1) / _WARM_UP) * (1 - share)
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate
        batch = self._samples.draw(options.batch, options.crop)
        terms, residuals = losses(self._network, batch, low=self._low)
        if share > _TEXTURE_FROM:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self._low):
                texture = texture_loss(self._texture, batch, residuals)
            terms["texture"] = _TEXTURE_WEIGHT * texture
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), _LARGEST_GRADIENT)
        if bool(torch.isfinite(norm)):
            for optimizer in self._optimizers:
                optimizer.step()
            follow(self._average, self._network, self.step)
        self.step += 1
        return terms

    def save(self, seconds: float) -> None:
        """Write the averaged weights, and their scores on held-out samples."""
        name = self._options.network
        about = {"step": self.step, "network": self._average.settings, "batch": self._options.batch}
        write_averages(
            self._options.folder / f"{name}.safetensors", self._average.state_dict(), about
        )
        with (self._options.folder / f"{name}.csv").open("a", newline="") as file:
            for mixture, row in self._scores().items():
                figures = [f"{value:.5f}" for value in row.tolist()]
                csv.writer(file).writerow([self.step, round(seconds), mixture, *figures])
                told = ", ".join(f"{n} {v}" for n, v in zip(COLUMNS, figures, strict=True))
                print(f"{name}, step {self.step}, {mixture}: {told}", flush=True)

    def _scores(self) -> dict[str, Tensor]:
        if not self._samples.held:
            return {}
        crops, numbers = (
            torch.cat(parts)[:_HELD] for parts in zip(*self._samples.held, strict=True)
        )
        sums: dict[str, Tensor] = {}
        for first in range(0, len(crops), _SCORED):
            part = slice(first, first + _SCORED)
            batch = as_batch(crops[part].to(self._device), numbers[part].to(self._device))
            for mixture, row in scored(self._average, self._texture, batch).items():
                sums[mixture] = sums.get(mixture, torch.zeros(len(COLUMNS))) + row
        return {mixture: row / len(crops) for mixture, row in sums.items()}
