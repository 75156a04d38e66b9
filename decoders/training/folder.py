"""The folder of a run: weights, resumption, tables of losses and scores, a sheet of pictures."""

import csv
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.losses import AlexDistance, luma_of
from gsvc.decoders.training.tasks import Batch, Task
from gsvc.decoders.training.tensors import (
    AVERAGE,
    RUN,
    on_device,
    read_average,
    read_tensors,
    write_tensors,
)

MOST_FILE_BYTES = 16_000_000
"""Of a file. Eight may come back from a lent machine, of 16 MiB each."""
_MOST_RESUME_FILES = 3
"""With the average, two tables, the sheet and one file in the making: eight."""
_SAVE = "save"
_HEADER = 200
"""Bytes of a header for each tensor, at most."""


class RunFolder:
    """Reads and writes what a run keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(
        self, weights: Mapping[str, Tensor], run: dict[str, Any], memory: dict[str, Tensor]
    ) -> None:
        """Write all. Between two files memory may be a save newer than weights; that is no harm.

        `weights`: stored as float16; `run`: what JSON can hold; `memory`: stored as it is.
        """
        parts = in_files(memory)
        save = {_SAVE: json.dumps([run["step"], len(parts)])}
        for number, part in enumerate(parts):
            write_tensors(self._resume(number), part, save, MOST_FILE_BYTES)
        halves = {name: value.half() for name, value in weights.items()}
        average = self.path / AVERAGE
        write_tensors(average, halves, {RUN: json.dumps(run)}, MOST_FILE_BYTES)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Weights in float32 and what is known of the run; None where there is no run.

        Raises InputError for a damaged file.
        """
        path = self.path / AVERAGE
        return read_average(path) if path.exists() else None

    def memory(self) -> dict[str, Tensor]:
        """What the optimisers remembered; empty where its files are missing or do not agree."""
        memory: dict[str, Tensor] = {}
        saves = set()
        number = 0
        while self._resume(number).exists():
            try:
                tensors, metadata = read_tensors(self._resume(number))
            except ValueError:
                return {}
            memory |= tensors
            saves.add(metadata.get(_SAVE, ""))
            number += 1
        if len(saves) != 1 or json.loads(saves.pop())[1] != number:
            return {}
        return memory

    def begin(self) -> None:
        """Make the folder, and remove what a killed process has left half-written."""
        self.path.mkdir(parents=True, exist_ok=True)
        for part in self.path.glob("*.part"):
            part.unlink()

    def _resume(self, number: int) -> Path:
        return self.path / f"resume-{number}.safetensors"


def in_files(memory: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Tensors shared out to files that are small enough.

    Raises ConfigError where they are too many.
    """
    parts: list[dict[str, Tensor]] = [{}]
    room = MOST_FILE_BYTES
    for name, tensor in memory.items():
        size = _bytes_of(tensor)
        if size > room:
            parts.append({})
            room = MOST_FILE_BYTES
        parts[-1][name] = tensor
        room -= size
    if len(parts) > _MOST_RESUME_FILES or room < 0:
        raise ConfigError("the network is too large for the files of a run: take a smaller one")
    return parts


def check_sizes(weights: Mapping[str, Tensor], memory: Mapping[str, Tensor]) -> None:
    """Raises ConfigError where a save would be too large for the files of a run."""
    in_files(memory)
    size = sum(_bytes_of(tensor.to(torch.float16)) for tensor in weights.values())
    if size > MOST_FILE_BYTES:
        raise ConfigError(
            f"the network's weights take {size} bytes: a file may have {MOST_FILE_BYTES}"
        )


def _bytes_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size() + _HEADER


"""A filter: each byte less that of the pixel before."""


def write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """Write RGB uint8 (H, W, 3), whole or not at all."""
    part = path.with_name(path.name + ".part")
    Image.fromarray(picture).save(part, "PNG")
    part.replace(path)


_ROWS = 8


class Scorer:
    """Scores a task's networks as they are, always on the same samples."""

    def __init__(
        self, task: Task, count: int, alex: dict[str, Tensor], device: torch.device
    ) -> None:
        """Raises ConfigError where nothing was held out."""
        self._task, self._batches = task, task.held(count)
        if not self._batches:
            raise ConfigError("the pack holds nothing out to score on: make it with --held-out")
        self._alex = on_device(AlexDistance(alex), device)

    def score(self) -> dict[str, dict[str, float]]:
        """Mean ST-LPIPS AlexNet and PSNR of luma in dB, by result; `given`: before."""
        sums: dict[str, Tensor] = {}
        count = 0
        for batch in self._batches:
            shown = dict(self._task.shown(batch))
            truth = shown.pop("truth")
            count += len(truth)
            for name, picture in shown.items():
                picture = picture.float().clamp(-1, 1)
                distances = self._distances(picture, truth)
                pair = torch.stack([distances, _psnr(picture, truth)]).double()
                sums[name] = sums.get(name, 0) + pair.sum(1)
        means = {name: (total / count).tolist() for name, total in sums.items()}
        return {name: {"alex": mean[0], "psnr": mean[1]} for name, mean in means.items()}

    def _distances(self, picture: Tensor, truth: Tensor) -> Tensor:
        with torch.no_grad():
            distances: Tensor = self._alex(picture, truth)
        return distances

    def sheet(self, path: Path) -> None:
        """A PNG with a row for each of a few samples: truth, given, results."""
        rows: list[Tensor] = []
        batch = _first(self._batches, _ROWS)
        shown = self._task.shown(batch)
        count = min(_ROWS, len(shown["truth"]))
        for number in range(count):
            rows.append(torch.cat([picture[number].float() for picture in shown.values()], 2))
        levels = torch.cat(rows, 1).add(1).mul(127.5).round().clamp(0, 255).byte()
        write_png(path, np.ascontiguousarray(levels.permute(1, 2, 0).cpu().numpy()))


def _first(batches: Sequence[Batch], count: int) -> Batch:
    """Of all batches, samples that lie far apart."""
    joined = {name: torch.cat([b[name] for b in batches]) for name in batches[0]}
    step = max(1, len(joined["truth"]) // count)
    return {name: values[::step][:count] for name, values in joined.items()}


def _psnr(picture: Tensor, truth: Tensor) -> Tensor:
    error = luma_of(picture - truth).div(2).square().mean((1, 2, 3))
    return -10 * torch.log10(error.clamp(min=1e-10))


_ROW_EVERY = 1.0


class LossTable:
    """`log.csv`: means of the terms since the row before."""

    def __init__(self, path: Path, terms: Sequence[str], is_new: bool) -> None:
        """`is_new`: begin the file anew."""
        self._path, self._terms = path, terms
        self._sums: dict[str, Tensor] = {}
        self._steps = 0
        self._written = time.monotonic()
        if is_new:
            _write(path, "w", ["step", "seconds", "samples/s", "rate", *terms])

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Of one step; nothing waits for the device."""
        for name, term in terms.items():
            self._sums[name] = self._sums[name] + term if name in self._sums else term
        self._steps += 1

    @property
    def is_due(self) -> bool:
        """Whether a row should be written."""
        return self._steps > 0 and time.monotonic() - self._written >= _ROW_EVERY

    def write(self, step: int, seconds: float, samples: int, rate: float) -> dict[str, float]:
        """A row; `samples`: of a step. Returns its means and `samples/s`."""
        now = time.monotonic()
        speed = self._steps * samples / (now - self._written)
        means = {name: float(total) / self._steps for name, total in self._sums.items()}
        shown = [f"{means[name]:.5g}" if name in means else "" for name in self._terms]
        _write(self._path, "a", [step, f"{seconds:.1f}", f"{speed:.1f}", f"{rate:.2e}", *shown])
        self._sums, self._steps, self._written = {}, 0, now
        return {"samples/s": speed, **means}


class ScoreTable:
    """`scores.csv`: a row for each result and save."""

    def __init__(self, path: Path, is_new: bool) -> None:
        """`is_new`: begin the file anew."""
        self._path = path
        if is_new:
            _write(path, "w", ["step", "seconds", "result", "alex", "psnr"])

    def write(self, step: int, seconds: float, scores: Mapping[str, Mapping[str, float]]) -> None:
        """Rows of one save."""
        for name, score in scores.items():
            values = f"{score['alex']:.5f}", f"{score['psnr']:.3f}"
            _write(self._path, "a", [step, f"{seconds:.1f}", name, *values])


def _write(path: Path, mode: str, values: Sequence[object]) -> None:
    with path.open(mode, newline="") as file:
        csv.writer(file).writerow(values)
