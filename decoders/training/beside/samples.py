"""Samples in files: tar shards as WebDataset reads them, pictures as WebP.

A sample is a JSON file with its numbers and a WebP picture for each of its stacks, all under one
key: `000017.json`, `000017.given.webp`, `000017.truth.webp`. A stack of several frames is a strip,
frame below frame. A fourth channel (a gain, a confidence) is alpha, which WebP keeps without loss.
"""

import io
import json
import os
import random
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SAMPLE_FORMAT = 1
SHARD_PATTERN = "*.tar"
_PICTURE = ".webp"
_BLOCK = 1 << 20


class SampleError(ValueError):
    """A shard that cannot be used; says why, and what to do."""


@dataclass(frozen=True)
class StoredSample:
    """A sample as it lies in a shard."""

    stacks: Mapping[str, NDArray[np.uint8]]
    """By name, uint8 (n, side, side, channels), channels 3 or 4."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What JSON can hold: quantiser, layer, size, the file it shows, whether it is held out."""


def write_shard(path: Path, samples: Iterable[StoredSample], quality: int = 92) -> int:
    """Write samples as one shard, whole or not at all; returns how many.

    `quality`: of WebP, 1 to 100; 101 keeps every level. Raises OSError where the disk is full.
    """
    part = path.with_name(f".{path.name}.part")
    count = 0
    try:
        with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
            for sample in samples:
                key = f"{count:06d}"
                about = {"format": SAMPLE_FORMAT, "stacks": {}, **sample.numbers}
                for name, stack in sample.stacks.items():
                    about["stacks"][name] = len(stack)
                    _add(tar, f"{key}.{name}{_PICTURE}", _coded_picture(stack, quality))
                _add(tar, f"{key}.json", json.dumps(about).encode())
                count += 1
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return count


def read_shard(path: Path) -> list[StoredSample]:
    """The samples of a shard. Raises SampleError where it is damaged or of a newer gsvc."""
    try:
        with tarfile.open(path, "r:") as tar:
            files = {one.name: _content(tar, one) for one in tar if one.isfile()}
        keys = sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))
        return [_sample(path, key, files) for key in keys]
    except SampleError:
        raise
    except (tarfile.TarError, OSError, ValueError, KeyError, TypeError) as error:
        raise SampleError(f"{path} is damaged ({error}): remove it, or make it again") from error


def _sample(path: Path, key: str, files: Mapping[str, bytes]) -> StoredSample:
    about = json.loads(files[f"{key}.json"])
    if about["format"] > SAMPLE_FORMAT:
        raise SampleError(f"{path} was made by a newer gsvc: take that one, or make samples anew")
    stacks = {
        name: _decoded_picture(files[f"{key}.{name}{_PICTURE}"], count)
        for name, count in about.pop("stacks").items()
    }
    return StoredSample(stacks, about)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    tar.addfile(member, io.BytesIO(data))


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    data = file.read() if file else b""
    if len(data) != member.size:
        raise SampleError(f"{member.name} is cut short")
    return data


def _coded_picture(stack: NDArray[np.uint8], quality: int) -> bytes:
    strip = Image.fromarray(np.ascontiguousarray(stack.reshape(-1, *stack.shape[2:])))
    data = io.BytesIO()
    # `exact`: colours count where alpha is 0.
    strip.save(data, "WEBP", quality=min(quality, 100), lossless=quality > 100, exact=True)
    return data.getvalue()


def _decoded_picture(data: bytes, count: int) -> NDArray[np.uint8]:
    strip = np.asarray(Image.open(io.BytesIO(data)), np.uint8)
    return strip.reshape(count, len(strip) // count, *strip.shape[1:])


class SamplePool:
    """Samples in memory: some of a folder's shards, of which the oldest make room for others.

    New shards in the folder are taken as they come; damaged ones are told of once and left out.
    """

    def __init__(self, folder: Path, most: int, seed: int, *, held: bool = False) -> None:
        """`most`: samples in memory; `held`: those to score on, not those to train on."""
        self._folder, self._most, self._held = folder, most, held
        self._dice = random.Random(seed)
        self._waiting: list[Path] = []
        self._bad: set[Path] = set()
        self._loaded: list[list[StoredSample]] = []
        self.told: list[str] = []
        """What went wrong since somebody looked."""

    def __len__(self) -> int:
        return sum(map(len, self._loaded))

    def fill(self) -> None:
        """Load shards up to the most that memory may hold. Raises SampleError without any."""
        shards = len(list(self._folder.glob(SHARD_PATTERN)))
        for _ in range(shards):
            if len(self) >= self._most:
                break
            self.renew()
        if not len(self):
            raise SampleError(f"no samples in {self._folder}: make train-beside makes them first")

    def renew(self) -> None:
        """Load one more shard; the oldest goes if there are too many samples."""
        if not self._waiting:
            self._waiting = sorted(set(self._folder.glob(SHARD_PATTERN)) - self._bad)
            self._dice.shuffle(self._waiting)
        if not self._waiting:
            return
        path = self._waiting.pop()
        try:
            samples = [x for x in read_shard(path) if bool(x.numbers.get("held")) == self._held]
        except SampleError as error:
            self._bad.add(path)
            self.told.append(str(error))
            return
        if samples:
            self._loaded.append(samples)
        while len(self._loaded) > 1 and len(self) - len(self._loaded[0]) >= self._most:
            self._loaded.pop(0)

    def draw(self, count: int) -> Sequence[StoredSample]:
        """Random samples, each shard as likely as it is large."""
        sizes = [len(shard) for shard in self._loaded]
        shards = self._dice.choices(self._loaded, sizes, k=count)
        return [self._dice.choice(shard) for shard in shards]

    def all(self) -> Sequence[StoredSample]:
        """All that are loaded."""
        return [sample for shard in self._loaded for sample in shard]
