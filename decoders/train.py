"""Trains the compact refiner on the crops that `pairs` makes, on CPU with one thread.

    python -m gsvc.decoders.train DATA RUN --steps 6000 [--resume]

Loss: Charbonnier distance + weight * difference of local gradient energies (as the encoder's D, but at two
scales and in four directions) + weight * ST-LPIPS AlexNet (Ghildyal & Liu, ECCV 2022) of the estimated frame. The
project is judged by ST-LPIPS VGG, which is never trained on. `--weights` begins from others' weights. RUN gets `log.csv`, `checkpoint.pt`, and
`compact.safetensors` + `compact.json`, the averaged weights.
"""

import argparse
import csv
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator, default_rng
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from gsvc.decoders.compact import CompactRefiner
from gsvc.decoders.pairs import CROP, WINDOW
from gsvc.decoders.samplers import noise_levels, start_state, walk

_SIDE = 112
_FRAMES = 3
_BATCH = 4
_POOL = 192
_WARM_UP = 100
_AVERAGE = 0.998
_SAVE_EVERY = 100
_GUIDE_DROP = 0.5
_ALONE = 0.15
"""Share of batches of single frames: a group's first picture is refined alone."""


@dataclass(frozen=True)
class Batch:
    """Model inputs of `CompactRefiner.forward` and the true frames (B, T, 3, H, W) in [-1, 1]."""

    pictures: Tensor
    guides: Tensor
    scalars: Tensor
    frames: Tensor

    def alone(self) -> "Batch":
        """The same frames as windows of one frame each."""
        parts = self.pictures, self.guides, self.scalars, self.frames
        return Batch(*(part.flatten(0, 1).unsqueeze(1) for part in parts))


class Pool:
    """Random windows from a changing choice of sequences held in memory."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._rng = default_rng(seed)
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._order: list[Path] = []

    def batch(self) -> Batch:
        for _ in range(4 if len(self._held) < _POOL else 1):
            self._exchange()
        drawn = [self._window() for _ in range(_BATCH)]
        return Batch(*(torch.stack(parts) for parts in zip(*drawn, strict=True)))

    def _exchange(self) -> None:
        if not self._order:
            self._order = sorted(self._folder.glob("*.npz"))
            self._rng.shuffle(self._order)
        with np.load(self._order.pop()) as file:
            sequence = file["frames"], file["scalars"]
        if len(self._held) < _POOL:
            self._held.append(sequence)
        else:
            self._held[int(self._rng.integers(_POOL))] = sequence

    def _window(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        frames, scalars = self._held[int(self._rng.integers(len(self._held)))]
        number = int(self._rng.integers(len(frames)))
        first = int(self._rng.integers(WINDOW - _FRAMES + 1))
        window = slice(first, first + _FRAMES)
        y, x = (int(v) * 2 for v in self._rng.integers((CROP - _SIDE) // 2 + 1, size=2))
        crop = frames[number, window, y : y + _SIDE, x : x + _SIDE]
        return unpack(*augment(crop, scalars[number, window], self._rng), self._rng)


def augment(crop: np.ndarray, scalars: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Mirror, turn, and run time backwards (left and right change sides)."""
    if rng.random() < 0.5:
        crop = crop[:, :, ::-1]
    if rng.random() < 0.5:
        crop = crop[:, ::-1]
    if rng.random() < 0.5:
        crop = crop.swapaxes(1, 2)
    if rng.random() < 0.5:
        swapped = [0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11, 13, 12, 14, 15]
        crop, scalars = crop[::-1, ..., swapped], scalars[::-1]
    return crop, scalars


def unpack(
    crop: np.ndarray, scalars: np.ndarray, rng: Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Packed bytes to (pictures, guides, scalars, frames); guides are dropped half of the time."""
    values = torch.from_numpy(np.ascontiguousarray(crop)).permute(0, 3, 1, 2).float()
    colours = values[:, :12] / 127.5 - 1
    pictures = torch.cat([colours[:, :9], values[:, 12:14] / 255], dim=1)
    labels, pose = values[:, 14:15], values[:, 15:16] / 255
    guides = torch.cat([(labels == 1).float(), (labels > 1).float(), pose], dim=1)
    guides = functional.avg_pool2d(guides, 2) * float(rng.random() >= _GUIDE_DROP)
    return pictures, guides, torch.from_numpy(scalars.copy()), colours[:, 9:]


def perceptual_network() -> nn.Module:
    """ST-LPIPS AlexNet from the package's own file; nothing is downloaded."""
    import stlpips_pytorch
    from stlpips_pytorch import stlpips

    network = stlpips.LPIPS(net="alex", variant="shift_tolerant", pretrained=False, verbose=False)
    folder = Path(stlpips_pytorch.__file__).parent / "weights/vST0.0"
    weights = torch.load(folder / "alex_shift_tolerant.pth", map_location="cpu", weights_only=True)
    # strict=False: the file carries more than the network names, never less; `eval.metrics` proves it.
    network.load_state_dict(weights, strict=False)
    _merge_first_layers(network.net.slice1)
    ready: nn.Module = network.eval().requires_grad_(False).to(memory_format=torch.channels_last)
    return ready


def _merge_first_layers(layers: Any) -> None:
    """Replace a convolution and the blur after it, both linear, by one strided convolution.

    A third of the network's time; distances change by less than 1 %, at the border only.
    """
    first, blur = layers[0], layers[1]
    kernel = blur.filt[:1]
    weight = functional.conv2d(
        first.weight.flatten(0, 1)[:, None], kernel.flip(2, 3), padding=kernel.shape[-1] - 1
    )
    weight = weight.reshape(*first.weight.shape[:2], *weight.shape[2:])
    merged = nn.Conv2d(
        weight.shape[1],
        weight.shape[0],
        weight.shape[-1],
        stride=blur.stride,
        padding=first.padding[0] + blur.pad_sizes[0],
    )
    merged.load_state_dict({"weight": weight, "bias": first.bias})
    layers[0], layers[1] = merged, nn.Identity()


def two_scales(estimate: Tensor, frames: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """What the perceptual term compares: a quarter of the frames, and a quarter of others twice as large.

    AlexNet's first layer does not see the finest detail, and a network trained on it alone fills that gap
    with lattices and noise; enlarged pictures show it what it missed. Which frames and which parts are
    enlarged changes with `step`.
    """
    shift, side = step // 2 % 4, _SIDE // 2
    y, x = (2 * ((step * prime) % (side // 2 + 1)) for prime in (7, 11))

    def views(pictures: Tensor) -> Tensor:
        flat = pictures.flatten(0, 1)
        part = flat[(shift + 2) % 4 :: 4, :, y : y + side, x : x + side]
        large = functional.interpolate(part, scale_factor=2, mode="bilinear")
        return torch.cat([flat[shift::4], large])

    return views(estimate), views(frames)


def training_state(
    model: CompactRefiner, batch: Batch, rng: Generator, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A state to learn from and its sigma: half at 1, else where 2 or 4 steps come by, rarely from the truth."""
    count, _, _, height, width = batch.frames.shape
    noise = torch.randn(count, 1, 3, height, width, generator=generator) * model.config.noise
    state = start_state(batch.pictures[:, :, :3], noise)
    if rng.random() < 0.5:
        return state, torch.ones(count)
    if rng.random() < 0.25:
        sigma = float(rng.uniform(0.15, 0.95))
        state = (1 - sigma) * batch.frames + sigma * state
    else:
        steps = 2 if rng.random() < 0.6 else 4
        done = int(rng.integers(1, steps))
        sigmas = noise_levels(steps)
        sigma = sigmas[done]

        def denoise(at: Tensor, level: Tensor) -> Tensor:
            estimate: Tensor = model(at, level, batch.pictures, batch.guides, batch.scalars)
            return estimate

        with torch.no_grad():
            state = walk(denoise, state, sigmas[:done], sigma)
    return state, torch.full((count,), sigma)


_LUMA = (0.299, 0.587, 0.114)
_FLAT = 10.0
"""Gradient of 0-255 luma below which texture counts for little, as in the encoder."""
_DIRECTIONS = (
    ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),
    ((-1, -2, -1), (0, 0, 0), (1, 2, 1)),
    ((0, 1, 2), (-1, 0, 1), (-2, -1, 0)),
    ((2, 1, 0), (1, 0, -1), (0, -1, -2)),
)


def texture_distance(estimate: Tensor, frames: Tensor) -> Tensor:
    """Mean |log ratio| of local gradient energies, windows of 9 and 17 pixels, and of 9 at half size.

    Both (B, T, 3, H, W) in [-1, 1]. Unlike a network's distance it can be met by no lattice and no noise of a
    certain kind: only by as much detail, in the same directions, at the same place.
    """
    one, other = (127.5 * _luma(pictures.flatten(0, 1)) for pictures in (estimate, frames))
    small, smaller = (functional.avg_pool2d(x, 2) for x in (one, other))
    parts = [
        (_log_energy(a, window) - _log_energy(b, window)).abs().mean()
        for a, b, window in ((one, other, 9), (one, other, 17), (small, smaller, 9))
    ]
    return torch.stack(parts).mean()


def _luma(pictures: Tensor) -> Tensor:
    return (pictures * pictures.new_tensor(_LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _log_energy(luma: Tensor, window: int) -> Tensor:
    kernels = luma.new_tensor(_DIRECTIONS)[:, None]
    gradients = functional.conv2d(functional.pad(luma, (1, 1, 1, 1), mode="reflect"), kernels)
    energy = functional.avg_pool2d(gradients.square(), window, stride=window // 4)
    return 0.5 * torch.log(energy + _FLAT**2)


class Trainer:
    """Holds everything a step changes; `save` and `resume` carry it over an interruption."""

    def __init__(
        self, data: Path, run: Path, *, steps: int, rate: float, texture: float, perceptual: float
    ) -> None:
        """`texture` and `perceptual`: weights of `texture_distance` and of ST-LPIPS AlexNet."""
        torch.manual_seed(0)
        self._run, self._steps, self._rate = run, steps, rate
        self._texture_weight, self._perceptual_weight = texture, perceptual
        self._model = CompactRefiner().to(memory_format=torch.channels_last)
        self._average = {k: v.clone() for k, v in self._model.state_dict().items()}
        self._optimizer = torch.optim.AdamW(self._model.parameters(), rate, weight_decay=1e-4)
        self._perceptual = perceptual_network() if perceptual else None
        self._data = data
        self._step = 0

    def resume(self) -> None:
        kept = torch.load(self._run / "checkpoint.pt", weights_only=True)
        self._model.load_state_dict(kept["model"])
        self._optimizer.load_state_dict(kept["optimizer"])
        self._average, self._step = kept["average"], kept["step"]

    def begin_from(self, weights: Path) -> None:
        """Start from the weights of a `.safetensors` file."""
        self._average = load_file(weights)
        self._model.load_state_dict(self._average)

    def train(self) -> None:
        self._run.mkdir(parents=True, exist_ok=True)
        pool = Pool(self._data, seed=self._step)
        rng = default_rng(self._step)
        generator = torch.Generator().manual_seed(self._step)
        start = time.monotonic()
        with (self._run / "log.csv").open("a", newline="") as file:
            log = csv.writer(file)
            while self._step < self._steps:
                batch = pool.batch()
                if rng.random() < _ALONE:
                    batch = batch.alone()
                with torch.autocast("cpu", torch.bfloat16):
                    state, sigma = training_state(self._model, batch, rng, generator)
                values = self._learn(batch, state, sigma)
                log.writerow(
                    [self._step, f"{time.monotonic() - start:.1f}", f"{sigma[0]:.2f}", *values]
                )
                self._step += 1
                file.flush()
                if self._step % _SAVE_EVERY == 0 or self._step == self._steps:
                    self.save()

    def _learn(self, batch: Batch, state: Tensor, sigma: Tensor) -> list[str]:
        with torch.autocast("cpu", torch.bfloat16):
            estimate = self._model(state, sigma, batch.pictures, batch.guides, batch.scalars)
        error = estimate.float() - batch.frames
        distance = (error.square() + 1e-5).sqrt().mean()
        texture = texture_distance(estimate.float(), batch.frames)
        perceptual = torch.zeros(())
        if self._perceptual is not None:
            pair = two_scales(estimate.float(), batch.frames, self._step)
            with torch.autocast("cpu", torch.bfloat16):
                unlike = self._perceptual(*pair)
            perceptual = unlike.float().mean()
        loss = distance + self._texture_weight * texture + self._perceptual_weight * perceptual
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._model.parameters(), 0.5)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate * self._schedule()
        self._optimizer.step()
        self._follow()
        before = (batch.pictures[:, :, :3] - batch.frames).square().mean()
        gain = 10 * torch.log10(before / error.square().mean())
        return [f"{float(v.detach()):.5f}" for v in (distance, texture, perceptual, gain, norm)]

    def _schedule(self) -> float:
        warm = min(1.0, (self._step + 1) / _WARM_UP)
        return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * self._step / self._steps)))

    def _follow(self) -> None:
        share = 1 - min(_AVERAGE, (1 + self._step) / (10 + self._step))
        with torch.no_grad():
            for name, value in self._model.state_dict().items():
                self._average[name].lerp_(value, share)

    def save(self) -> None:
        kept = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "average": self._average,
            "step": self._step,
        }
        torch.save(kept, self._run / "checkpoint.part")
        (self._run / "checkpoint.part").rename(self._run / "checkpoint.pt")
        weights = {k: v.contiguous() for k, v in self._average.items()}
        save_file(weights, self._run / "compact.part")
        (self._run / "compact.part").rename(self._run / "compact.safetensors")
        config = {k: v for k, v in self._model.config.items() if not k.startswith("_")}
        (self._run / "compact.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the compact refiner.")
    parser.add_argument("data", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--texture", type=float, default=0.3, help="weight of the texture distance")
    parser.add_argument("--perceptual", type=float, default=0.0, help="weight of ST-LPIPS AlexNet")
    parser.add_argument("--weights", type=Path, help="begin from this .safetensors file")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    trainer = Trainer(
        options.data,
        options.run,
        steps=options.steps,
        rate=options.rate,
        texture=options.texture,
        perceptual=options.perceptual,
    )
    if options.weights:
        trainer.begin_from(options.weights)
    if options.resume:
        trainer.resume()
    trainer.train()


if __name__ == "__main__":
    main()
