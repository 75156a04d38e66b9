"""Samples in files: tar shards as WebDataset reads them, pictures as WebP, and packs of them.

A sample is a JSON file with its numbers and a WebP picture for each of its stacks, all under one
key: `000017.json`, `000017.given.webp`, `000017.truth.webp`. A stack of several frames is a strip,
frame below frame. A fourth channel (a gain, a confidence) is alpha, which WebP keeps without loss.
Packs, prepared shards and the shards of the job beside everything have this one format. A pack is
a shard with two files before its samples: the weights of frozen networks, and a manifest that says
how it was made and what was held out.
"""

import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from gsvc.decoders.training.tensors import tensor_bytes, tensors_of

SAMPLE_FORMAT = 1
SHARD_PATTERN = "*.tar"
GAIN_UNIT = 128
"""What a texture gain of 1 is stored as."""
CONFIDENCE_UNIT = 255
"""What a confidence of 1 is stored as."""
LOSSLESS = 101
"""A quality that keeps every level."""
ARRAY_TYPES: Mapping[str, type[np.generic]] = {
    "scalars": np.float16,
    "layer": np.uint8,
    "frames": np.int32,
    "gap": np.uint8,
    "time": np.float16,
    "held": np.uint8,
    "clip": np.int32,
}
"""Arrays of samples that losses and tasks read; JSON holds their values exactly."""
_PICTURE = ".webp"
_LOSSLESS_EFFORT = {"quality": 20, "method": 1}
"""Effort of lossless WebP: half the time of the usual for 3 % more bytes."""


class SampleError(ValueError):
    """A shard that cannot be used; says why, and what to do."""


@dataclass(frozen=True)
class Sample:
    """What is cut at one place of coded frames, and what training must know of it."""

    stacks: Mapping[str, NDArray[np.uint8]]
    """By name, uint8 (n, side, side, channels), channels 1, 3 or 4."""
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    """Rows of a pack's arrays by name, of `ARRAY_TYPES`; `frames`: how many a window has."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What else JSON can hold: place, frames, quantiser, files, whether it is held out."""


def sample_files(sample: Sample, quality: int) -> dict[str, bytes]:
    """The files of a sample by what stands after its key.

    `quality`: of WebP, 1 to 100, or `LOSSLESS`.
    """
    stacks = sample.stacks.items()
    about: dict[str, Any] = {"format": SAMPLE_FORMAT, **sample.numbers}
    about["arrays"] = {n: array.astype(float).tolist() for n, array in sample.arrays.items()}
    about["stacks"] = {name: len(stack) for name, stack in stacks}
    about["single"] = [name for name, stack in stacks if stack.shape[-1] == 1]
    files = {f"{name}{_PICTURE}": picture_bytes(stack, quality) for name, stack in stacks}
    return {**files, "json": json.dumps(about, sort_keys=True).encode()}


def sample_of_files(files: Mapping[str, bytes], place: str) -> Sample:
    """The sample that has these files. `place`: where they are, for errors.

    Raises SampleError where they are damaged or of a newer gsvc.
    """
    try:
        about = json.loads(files["json"])
        if about["format"] > SAMPLE_FORMAT:
            raise SampleError(
                f"{place} was made by a newer gsvc: take that one, or make samples anew"
            )
        single = about.pop("single", ())
        stacks = {
            name: stack_of_picture(files[f"{name}{_PICTURE}"], count, single=name in single)
            for name, count in about.pop("stacks").items()
        }
        rows = about.pop("arrays", {}).items()
        arrays = {name: np.array(value, ARRAY_TYPES[name]) for name, value in rows}
    except SampleError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SampleError(f"{place} is damaged ({error}): remove it, or make it again") from error
    return Sample(stacks, arrays, about)


def picture_bytes(stack: NDArray[np.uint8], quality: int = LOSSLESS) -> bytes:
    """Pictures, uint8 (n, H, W, C), C 1, 3 (RGB) or 4 (with alpha), as one WebP strip."""
    strip = np.ascontiguousarray(stack.reshape(-1, *stack.shape[2:]))
    image = Image.fromarray(strip[..., 0] if strip.shape[-1] == 1 else strip)
    data = io.BytesIO()
    options: dict[str, Any] = {"quality": quality}
    if quality >= LOSSLESS:
        options = {"lossless": True, **_LOSSLESS_EFFORT}
    # `exact`: colours count where alpha is 0.
    image.save(data, "WEBP", exact=True, **options)
    return data.getvalue()


def stack_of_picture(data: bytes, count: int, *, single: bool = False) -> NDArray[np.uint8]:
    """Of `picture_bytes`: uint8 (count, H, W, C); of one channel where they are `single`."""
    strip = np.asarray(Image.open(io.BytesIO(data)), np.uint8)
    if single:
        strip = strip[..., :1]
    return strip.reshape(count, len(strip) // count, *strip.shape[1:])


def write_shard(
    path: Path,
    samples: Iterable[Sample],
    quality: int = 92,
    more: Mapping[str, bytes] | None = None,
) -> int:
    """Write samples as one shard, whole or not at all; returns how many.

    `quality`: of WebP, as of `sample_files`; `more`: files that stand before the samples. Raises
    OSError where the disk is full.
    """
    count = 0

    def files() -> Iterator[tuple[str, bytes]]:
        nonlocal count
        yield from (more or {}).items()
        for sample in samples:
            for name, data in sample_files(sample, quality).items():
                yield f"{count:06d}.{name}", data
            count += 1

    write_files(path, files())
    return count


def write_files(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files, by name and data, as one tar, whole or not at all. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    try:
        with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, data in files:
                add_file(tar, name, data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_shard(path: Path, row: int | None = None) -> list[Sample]:
    """The samples of a shard, or the one at `row`.

    Raises SampleError where it is damaged or of a newer gsvc.
    """
    key = "" if row is None else f"{row:06d}."
    return [sample_of_files(files, str(path)) for files in by_sample(read_files(path, key))]


def by_sample(files: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    """The files of each sample, in the order of their keys; what is of no sample is left out."""
    samples: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        key, _, rest = name.partition(".")
        if key.isdigit():
            samples.setdefault(key, {})[rest] = data
    return [samples[key] for key in sorted(samples)]


def read_files(path: Path, start: str = "") -> dict[str, bytes]:
    """The files of a tar by name, those whose name begins with `start`.

    Raises SampleError where it is damaged.
    """
    try:
        with tarfile.open(path, "r:") as tar:
            wanted = (one for one in tar if one.isfile() and one.name.startswith(start))
            return {one.name: _content(tar, one) for one in wanted}
    except SampleError:
        raise
    except (tarfile.TarError, OSError, ValueError) as error:
        raise SampleError(f"{path} is damaged ({error}): remove it, or make it again") from error


def add_file(tar: tarfile.TarFile, name: str, data: bytes) -> int:
    """Add a file to a ustar archive; returns where its bytes begin."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    begin = tar.offset + tarfile.BLOCKSIZE  # a header of ustar is one block
    tar.addfile(member, io.BytesIO(data))
    return begin


def file_bytes(data: bytes) -> int:
    """What a file takes in an archive, its header included."""
    return tarfile.BLOCKSIZE * (1 - -len(data) // tarfile.BLOCKSIZE)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    data = file.read() if file else b""
    if len(data) != member.size:
        raise SampleError(f"{member.name} is cut short")
    return data


PACK_FORMAT = 2
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
        samples: Sequence[Sample],
        manifest: Mapping[str, Any] | None = None,
        networks: Mapping[str, dict[str, Tensor]] | None = None,
    ) -> "Pack":
        """A pack of these samples; where they do not say so, none is held out."""
        first = samples[0] if samples else Sample({})
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
            ends = np.cumsum(frames, dtype=np.int32)
            arrays["window"] = np.stack([ends - frames, frames], 1)
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
    size = sum(map(file_bytes, files.values())) + 2 * tarfile.BLOCKSIZE
    size = -(-size // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    if size > most_bytes:
        raise ValueError(f"{path.name} would have {size} bytes: {most_bytes} are permitted")
    write_files(path, files.items())


def read_pack(path: Path, least: int = 0) -> Pack:
    """Read a pack and decode its pictures. Raises ValueError for what is damaged or no pack.

    `least`: so many samples are read; 0 for all.
    """
    files = read_files(path)
    manifest = json.loads(files.pop(_MANIFEST, b"{}"))
    if manifest.get("format") != PACK_FORMAT:
        raise ValueError(f"{path} is not a pack of this version: gsvc train pack makes one")
    networks: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors_of(bytearray(files.pop(_NETWORKS, b"")), str(path))[0].items():
        network, key = name.split("/", 1)
        networks.setdefault(network, {})[key] = value
    chosen = by_sample(files)[: least or None]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        read = list(pool.map(lambda one: sample_of_files(one, str(path)), chosen))
    return Pack.of(read, manifest, networks)
