"""The folder of a run: small files, each of them whole whenever the machine goes away.

`average.safetensors` is the result, complete by itself: averaged weights, and all about the run. A
run goes on from it. `resume-N.safetensors` have what an optimiser remembers, and the critic; where
they are missing, or of different saves, the run goes on without.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.decoders.training.standalone.tensors import read_tensors, write_tensors

AVERAGE = "average.safetensors"
MOST_FILE_BYTES = 16_000_000
"""Of a file. Eight may come back from a lent machine, of 16 MiB each."""
_MOST_RESUME_FILES = 3
"""With the average, two tables, the sheet and one file in the making: eight."""
_RUN, _SAVE = "run", "save"
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
        write_tensors(average, halves, {_RUN: json.dumps(run)}, MOST_FILE_BYTES)

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


def read_average(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights, float32, and what is known of the run that wrote them: step, recipe and so on.

    Raises InputError for a file that is missing, damaged or no run's.
    """
    try:
        tensors, metadata = read_tensors(path)
        run: dict[str, Any] = json.loads(metadata[_RUN])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not the result of a training run ({error})") from error
    return {name: value.float() for name, value in tensors.items()}, run


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
