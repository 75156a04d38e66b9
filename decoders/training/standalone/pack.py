"""Packs: one file with all that a training run needs, small enough to carry.

A pack has stacks of small pictures (see `planes`), arrays, one row a sample, the weights of frozen
networks, and a manifest that says how it was made and what was held out.
"""

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsvc.decoders.training.standalone.levels import Planes, unpack_levels
from gsvc.decoders.training.standalone.planes import pictures_of_levels, shapes_of_levels
from gsvc.decoders.training.standalone.tensors import read_tensors, write_tensors

PACK_FORMAT = 1
_MANIFEST = "manifest"


@dataclass(frozen=True)
class CodedStack:
    """Pictures of one size, coded in chunks by `pack_levels`, perhaps beside others."""

    shape: tuple[int, int, int]
    """Height, width, channels."""
    step: float
    """Of the quantiser."""
    chunks: Sequence[tuple[int, bytes]]
    """Number of pictures and data of each chunk."""
    beside: str = ""
    """The stack that these pictures resemble, chunk by chunk; it stands before this one."""


@dataclass(frozen=True)
class Pack:
    """A pack in memory."""

    manifest: dict[str, Any]
    """`kind` (pictures or windows), `held_out`, `sources`, `loss` and what else the maker says."""
    stacks: dict[str, Tensor]
    """uint8 (N, C, H, W) by name."""
    arrays: dict[str, Tensor]
    networks: dict[str, dict[str, Tensor]]
    """State of a frozen network, in half precision, by its name."""

    def to(self, device: torch.device) -> "Pack":
        """The same with stacks and arrays on a device."""
        stacks = {name: stack.to(device) for name, stack in self.stacks.items()}
        arrays = {name: array.to(device) for name, array in self.arrays.items()}
        return Pack(self.manifest, stacks, arrays, self.networks)


def write_pack(
    path: Path,
    manifest: Mapping[str, Any],
    stacks: Mapping[str, CodedStack],
    arrays: Mapping[str, Tensor],
    networks: Mapping[str, Mapping[str, Tensor]],
    most_bytes: int,
) -> None:
    """Write a pack. Raises ValueError where it would be larger than `most_bytes`."""
    tensors = {f"array/{name}": array for name, array in arrays.items()}
    for name, state in networks.items():
        tensors |= {f"network/{name}/{key}": value for key, value in state.items()}
    shapes = {}
    for name, stack in stacks.items():
        counts = [count for count, _ in stack.chunks]
        shapes[name] = {"shape": stack.shape, "step": stack.step, "counts": counts}
        shapes[name]["beside"] = stack.beside
        for number, (_, data) in enumerate(stack.chunks):
            tensors[f"stack/{name}/{number}"] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    text = json.dumps({**manifest, "format": PACK_FORMAT, "stacks": shapes})
    write_tensors(path, tensors, {_MANIFEST: text}, most_bytes)


def read_pack(path: Path, least: int = 0) -> Pack:
    """Read a pack and decode its pictures. Raises ValueError for what is damaged or no pack.

    `least`: so many samples are enough, and whole chunks of them are read; 0 for all.
    """
    tensors, metadata = read_tensors(path)
    manifest = json.loads(metadata.get(_MANIFEST, "{}"))
    if manifest.get("format") != PACK_FORMAT:
        raise ValueError(f"{path} is not a pack of this version: gsvc train pack makes one")
    arrays = {name[6:]: value for name, value in tensors.items() if name.startswith("array/")}
    coded, arrays = _first_stacks(manifest["stacks"], arrays, least)
    stacks = _unpacked_stacks(tensors, coded)
    networks: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("network/"):
            _, network, key = name.split("/", 2)
            networks.setdefault(network, {})[key] = value
    return Pack(manifest, stacks, arrays, networks)


def _first_stacks(
    coded: Mapping[str, Mapping[str, Any]], arrays: dict[str, Tensor], least: int
) -> tuple[dict[str, dict[str, Any]], dict[str, Tensor]]:
    """Stacks and arrays of the first chunks that have so many samples."""
    chunks = samples = pictures = 0
    for count in coded["truth"]["counts"]:
        chunks, pictures = chunks + 1, pictures + count
        samples = pictures
        if "window" in arrays:  # start and frames of each sample
            samples = int((arrays["window"].sum(1) <= pictures).sum())
        if 0 < least <= samples:
            break
    ends = {"time": pictures}
    cut = {name: {**stack, "counts": stack["counts"][:chunks]} for name, stack in coded.items()}
    return cut, {name: rows[: ends.get(name, samples)] for name, rows in arrays.items()}


def _unpacked_stacks(
    tensors: Mapping[str, Tensor], coded: Mapping[str, Mapping[str, Any]]
) -> dict[str, Tensor]:
    """All pictures by stack; chunks are decoded side by side."""
    chunks = max((len(stack["counts"]) for stack in coded.values()), default=0)

    def chunk(number: int) -> dict[str, Tensor]:
        levels: dict[str, Planes] = {"": []}
        pictures = {}
        for name, stack in coded.items():
            if number < len(stack["counts"]):
                data = tensors[f"stack/{name}/{number}"].numpy().tobytes()
                shapes = shapes_of_levels((stack["counts"][number], *stack["shape"]))
                levels[name] = unpack_levels(data, shapes, levels[stack.get("beside", "")])
                pictures[name] = pictures_of_levels(levels[name], stack["step"])
        return pictures

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(chunk, range(chunks)))
    return {name: torch.cat([part[name] for part in parts if name in part]) for name in coded}
