"""Samples in files: tar shards as WebDataset reads them, pictures as WebP.

A sample is a JSON file with its numbers and a WebP picture for each of its stacks, all under one
key: `000017.json`, `000017.given.webp`, `000017.truth.webp`. A stack of several frames is a strip,
frame below frame. A fourth channel (a gain, a confidence) is alpha, which WebP keeps without loss.
Packs, prepared shards and those of `tools/beside` have this one format.
"""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.output import atomic_output

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
}
"""Arrays of samples that losses and tasks read; JSON holds their values exactly."""
_PICTURE = ".webp"
_LOSSLESS_EFFORT = {"quality": 20, "method": 1}
"""Effort of lossless WebP: half the time of the usual for 3 % more bytes."""


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
    """Its files by what stands after its key. `quality`: of WebP, 1 to 100, or `LOSSLESS`."""
    stacks = sample.stacks.items()
    about: dict[str, Any] = {"format": SAMPLE_FORMAT, **sample.numbers}
    about["arrays"] = {n: array.astype(float).tolist() for n, array in sample.arrays.items()}
    about["stacks"] = {name: len(stack) for name, stack in stacks}
    about["single"] = [name for name, stack in stacks if stack.shape[-1] == 1]
    files = {f"{name}{_PICTURE}": picture_bytes(stack, quality) for name, stack in stacks}
    return {**files, "json": json.dumps(about, sort_keys=True).encode()}


def sample_of_files(files: Mapping[str, bytes], place: str) -> Sample:
    """The sample that has these files. `place`: where they are, for errors.

    Raises InputError where they are damaged or of a newer gsvc.
    """
    try:
        about = json.loads(files["json"])
        if about["format"] > SAMPLE_FORMAT:
            why = f"{place} was made by a newer gsvc: take that one, or make samples anew"
            raise InputError(why)
        single = about.pop("single", ())
        stacks = {
            name: stack_of_picture(files[f"{name}{_PICTURE}"], count, single=name in single)
            for name, count in about.pop("stacks").items()
        }
        rows = about.pop("arrays", {}).items()
        arrays = {name: np.array(value, ARRAY_TYPES[name]) for name, value in rows}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{place} is damaged ({error}): remove it, or make it again") from error
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


def write_files(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files, by name and data, as one tar, whole or not at all. Raises OutputError."""
    with (
        atomic_output(path, overwrite=True) as part,
        tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, data in files:
            add_file(tar, name, data)


def by_sample(files: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    """The files of each sample, in the order of their keys; what is of no sample is left out."""
    samples: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        key, _, rest = name.partition(".")
        if key.isdigit():
            samples.setdefault(key, {})[rest] = data
    return [samples[key] for key in sorted(samples)]


def read_files(path: Path) -> dict[str, bytes]:
    """The files of a tar by name. Raises InputError where it is damaged."""
    try:
        with tarfile.open(path, "r:") as tar:
            return {one.name: _content(tar, one) for one in tar if one.isfile()}
    except (tarfile.TarError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): remove it, or make it again") from error


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
        raise ValueError(f"{member.name} is cut short")
    return data
