"""Tensors in safetensors files, and on devices."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.output import atomic_output

AVERAGE, RUN = "average.safetensors", "run"
"""The result of a run in its folder, and the metadata that says what it is."""


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], most_bytes: int
) -> None:
    """Write a file whole or not at all.

    Raises ValueError where it has more than `most_bytes`, OutputError.
    """
    data = tensor_bytes(tensors, metadata)
    if len(data) > most_bytes:
        raise ValueError(f"{path.name} would have {len(data)} bytes: {most_bytes} are permitted")
    with atomic_output(path, overwrite=True) as part:
        part.write_bytes(data)


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Tensors as the bytes of a file."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data: bytes = save(held, dict(metadata))
    return data


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file by name, and its metadata. Raises ValueError for a damaged file."""
    return tensors_of(path.read_bytes(), str(path))


def tensors_of(data: bytes, place: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """As `read_tensors`, of a file's bytes. `place`: where they are from, for errors."""
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise ValueError(f"{place} is damaged ({error})") from error
    length = int.from_bytes(data[:8], "little")
    return tensors, json.loads(data[8 : 8 + length]).get("__metadata__", {})


def read_average(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights, float32, and what is known of the run that wrote them: step, recipe and so on.

    Raises InputError for a file that is missing, damaged or no run's.
    """
    try:
        tensors, metadata = read_tensors(path)
        run: dict[str, Any] = json.loads(metadata[RUN])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not the result of a training run ({error})") from error
    return {name: value.float() for name, value in tensors.items()}, run


_Placed = TypeVar("_Placed", bound=nn.Module)


def on_device(network: _Placed, device: torch.device) -> _Placed:
    """The network there, channels last in memory: convolutions are faster so."""
    return network.to(device).to(memory_format=torch.channels_last)
