"""Packs: one file with all that a training run needs, small enough to carry.

A pack has stacks of small pictures (see `planes`), arrays, one row a sample, the weights of frozen
networks, and a manifest that says how it was made and what was held out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsvc.decoders.training.standalone.planes import unpack_planes
from gsvc.decoders.training.standalone.tensors import read_tensors, write_tensors

PACK_FORMAT = 1
_MANIFEST = "manifest"


@dataclass(frozen=True)
class CodedStack:
    """Pictures of one size, coded in chunks by `pack_planes`."""

    shape: tuple[int, int, int]
    """Height, width, channels."""
    step: float
    """Of the quantiser."""
    chunks: Sequence[tuple[int, bytes]]
    """Number of pictures and data of each chunk."""


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
        for number, (_, data) in enumerate(stack.chunks):
            tensors[f"stack/{name}/{number}"] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    text = json.dumps({**manifest, "format": PACK_FORMAT, "stacks": shapes})
    write_tensors(path, tensors, {_MANIFEST: text}, most_bytes)


def read_pack(path: Path) -> Pack:
    """Read a pack and decode its pictures. Raises ValueError for what is damaged or no pack."""
    tensors, metadata = read_tensors(path)
    manifest = json.loads(metadata.get(_MANIFEST, "{}"))
    if manifest.get("format") != PACK_FORMAT:
        raise ValueError(f"{path} is not a pack of this version: gsvc train pack makes one")
    stacks = {}
    for name, stack in manifest["stacks"].items():
        chunks = [
            unpack_planes(
                tensors[f"stack/{name}/{number}"].numpy().tobytes(),
                (count, *stack["shape"]),
                stack["step"],
            )
            for number, count in enumerate(stack["counts"])
        ]
        stacks[name] = torch.cat(chunks)
    arrays = {name[6:]: value for name, value in tensors.items() if name.startswith("array/")}
    networks: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("network/"):
            _, network, key = name.split("/", 2)
            networks.setdefault(network, {})[key] = value
    return Pack(manifest, stacks, arrays, networks)
