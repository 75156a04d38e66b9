"""Packs: one file with all that a training run needs, small enough to carry.

A pack is a shard of samples with two files before them: the weights of frozen networks, and a
manifest that says how it was made and what was held out.
"""

import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsvc.decoders.training import samples as stored
from gsvc.decoders.training.tensors import tensor_bytes, tensors_of

PACK_FORMAT = 3
_MANIFEST, _NETWORKS = "manifest.json", "networks.safetensors"


@dataclass(frozen=True)
class Pack:
    """A pack in memory."""

    manifest: dict[str, Any]
    """`kind` (pictures or windows), `held_out`, `sources`, `loss` and what else the maker says."""
    stacks: dict[str, Tensor]
    """uint8 (N, C, H, W) by name."""
    arrays: dict[str, Tensor]
    """By name, a row a sample; `time` has one a frame. `window`: first frame and frames of each."""
    networks: dict[str, dict[str, Tensor]]
    """State of a frozen network, in half precision, by its name."""

    @classmethod
    def of(
        cls,
        samples: Sequence[stored.Sample],
        manifest: Mapping[str, Any] | None = None,
        networks: Mapping[str, dict[str, Tensor]] | None = None,
    ) -> "Pack":
        """A pack of these samples; where they do not say so, none is held out."""
        first = samples[0] if samples else stored.Sample({})
        stacks = {
            name: torch.from_numpy(np.concatenate([one.stacks[name] for one in samples]))
            .permute(0, 3, 1, 2)
            .contiguous()
            for name in first.stacks
        }
        arrays = {name: np.concatenate([x.arrays[name] for x in samples]) for name in first.arrays}
        arrays.setdefault("held", np.zeros(len(samples), np.uint8))
        if "frames" in arrays:
            frames = arrays.pop("frames")
            arrays["window"] = np.stack([np.cumsum(frames, dtype=np.int32) - frames, frames], 1)
        rows = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return cls(dict(manifest or {}), stacks, rows, dict(networks or {}))

    @classmethod
    def without_samples(cls, kind: str, networks: Mapping[str, dict[str, Tensor]]) -> "Pack":
        """A pack of a kind for a run whose samples are given to it."""
        rows = {"held": torch.zeros(0), "window": torch.zeros(0, 2)}
        return cls({"kind": kind}, {}, rows, dict(networks))

    def to(self, device: torch.device) -> "Pack":
        """The same with stacks and arrays on a device."""
        stacks = {name: stack.to(device) for name, stack in self.stacks.items()}
        arrays = {name: array.to(device) for name, array in self.arrays.items()}
        return Pack(self.manifest, stacks, arrays, self.networks)


def network_bytes(networks: Mapping[str, Mapping[str, Tensor]]) -> bytes:
    """The networks as the file in a pack."""
    tensors = {
        f"{name}/{key}": value for name, state in networks.items() for key, value in state.items()
    }
    return tensor_bytes(tensors, {})


def write_pack(
    path: Path,
    manifest: Mapping[str, Any],
    samples: Sequence[Mapping[str, bytes]],
    networks: bytes,
    most_bytes: int,
) -> None:
    """Write a pack whole or not at all.

    `samples`: of `sample_files`; `networks`: of `network_bytes`. Raises ValueError where the pack
    would be larger than `most_bytes`.
    """
    text = json.dumps({**manifest, "format": PACK_FORMAT}).encode()
    files = {_MANIFEST: text, _NETWORKS: networks}
    for number, sample in enumerate(samples):
        files |= {f"{number:06d}.{name}": data for name, data in sample.items()}
    size = sum(map(stored.file_bytes, files.values())) + 2 * tarfile.BLOCKSIZE
    size = -(-size // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    if size > most_bytes:
        raise ValueError(f"{path.name} would have {size} bytes: {most_bytes} are permitted")
    stored.write_files(path, files.items())


def read_pack(path: Path, least: int = 0) -> Pack:
    """Read a pack and decode its pictures. Raises ValueError for what is damaged or no pack.

    `least`: so many samples are read; 0 for all.
    """
    files = stored.read_files(path)
    manifest = json.loads(files.pop(_MANIFEST, b"{}"))
    if manifest.get("format") != PACK_FORMAT:
        raise ValueError(f"{path} is not a pack of this version: gsvc train pack makes one")
    networks: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors_of(files.pop(_NETWORKS, b""), str(path))[0].items():
        network, key = name.split("/", 1)
        networks.setdefault(network, {})[key] = value
    chosen = stored.by_sample(files)[: least or None]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        read = list(pool.map(lambda one: stored.sample_of_files(one, str(path)), chosen))
    return Pack.of(read, manifest, networks)
