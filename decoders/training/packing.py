"""Packs: parts, each with the samples of one coded run, and the pack that is put together of them.

A part is a shard without loss. The seed and the part's number decide all that is in it. A folder
keeps the parts until the pack is complete, so that a command that was killed goes on. The pack
takes as many samples as fit, in random order.
"""

import csv
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import count
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import cv2
import numpy as np
import torch
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from torch import Tensor

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.media.output import explain_failure
from gsvc.codec.weights.model_files import sha256_of
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.training import coded_runs
from gsvc.decoders.training.crops import KINDS
from gsvc.decoders.training.footage import Footage, Scene
from gsvc.decoders.training.packs import network_bytes, write_pack
from gsvc.decoders.training.samples import (
    CONFIDENCE_UNIT,
    GAIN_UNIT,
    LOSSLESS,
    Sample,
    SampleError,
    file_bytes,
    read_files,
    read_shard,
    sample_files,
    sample_of_files,
    write_shard,
)

CODINGS = "streams", "hierarchies", "keys"
_HELD_EVERY = 12
"""One part in so many is of what was held out."""
_DRAWS = 10
"""Places tried for a run of frames."""
PACK_QUALITY = 92
"""Of WebP: video keeps about 44 dB of luma."""
_FACTS = "part.json"
_SETTINGS = "parts.json"
_T = TypeVar("_T")


@dataclass(frozen=True)
class PartFacts:
    """What is known of a part beside its samples."""

    coding: str
    files: tuple[str, ...]
    """The footage, relative to its folder: a clip, or a photograph and the cut-outs over it."""
    held: bool
    """Whether the footage was held out from training."""
    samples: int
    seconds: float
    """That it took to make."""
    bytes: int
    """That the samples take in a pack, about."""


@dataclass(frozen=True)
class Part:
    """A part in memory."""

    facts: PartFacts
    samples: Sequence[Sample]


@dataclass(frozen=True)
class PartMaker:
    """Makes parts of one kind; may be sent to another process."""

    kind: str
    seed: int
    folder: Path
    """Of all footage."""
    files: Sequence[Path]
    """To train on."""
    held: Sequence[Path]
    """Held out."""

    def make(self, number: int) -> Part:
        """The part of that number; it is empty where no footage was long enough."""
        cv2.setNumThreads(1)
        torch.set_num_threads(1)
        begun = time.monotonic()
        rng = default_rng((self.seed, number))
        is_held = bool(self.held) and number % _HELD_EVERY == _HELD_EVERY - 1
        kind = KINDS[self.kind]
        coding = str(rng.choice(CODINGS, p=kind.shares))
        found = _coded(coding, self._held if is_held else self._footage, rng, kind.least_spacing)
        samples: list[Sample] = []
        files: tuple[str, ...] = ()
        if found is not None:
            scene, run = found
            samples = list(kind.samples(run, kind.side, rng))
            files = tuple(str(path.relative_to(self.folder)) for path in scene.files)
        coded = [sample_files(sample, PACK_QUALITY) for sample in samples]
        facts = PartFacts(
            coding,
            files,
            is_held,
            len(samples),
            round(time.monotonic() - begun, 2),
            sum(file_bytes(data) for files in coded for data in files.values()),
        )
        return Part(facts, samples)

    @cached_property
    def _footage(self) -> Footage:
        return Footage(self.files, KINDS[self.kind].clips)

    @cached_property
    def _held(self) -> Footage:
        return Footage(self.held, clips=1.0)


def _coded(
    coding: str, footage: Footage, rng: Generator, least_spacing: int
) -> tuple[Scene, coded_runs.CodedRun] | None:
    """A run of random footage under a random coding of that kind."""
    for _ in range(_DRAWS):
        if coding == "streams":
            stream = coded_runs.random_stream(rng)
            scene = footage.scene(stream.frames, rng)
            if scene is not None:
                frames = [scene.frame(number) for number in range(stream.frames)]
                return scene, coded_runs.coded_stream(frames, stream)
        else:
            sequence = (
                coded_runs.random_hierarchy if coding == "hierarchies" else coded_runs.random_keys
            )(rng, least_spacing)
            scene = footage.scene(sequence.frames, rng)
            if scene is not None:
                return scene, coded_runs.coded_sequence(scene.frame, sequence)
    return None


def write_part(path: Path, part: Part) -> None:
    """Write a part whole or not at all, without loss."""
    about = {_FACTS: json.dumps(asdict(part.facts)).encode()}
    write_shard(path, part.samples, LOSSLESS, about)


def read_facts(path: Path) -> PartFacts:
    """What is known of a part. Raises SampleError where it is damaged."""
    try:
        facts = json.loads(read_files(path, _FACTS)[_FACTS])
        return PartFacts(**{**facts, "files": tuple(facts["files"])})
    except (KeyError, TypeError) as error:
        raise SampleError(f"{path} is damaged ({error})") from error


def read_sample(path: Path, row: int) -> Sample:
    """One sample of a part, alone. Raises SampleError where the part is damaged."""
    found = read_shard(path, row)
    if not found:
        raise SampleError(f"{path} has no sample {row}")
    return found[0]


class PartFolder:
    """Parts of one maker, by number; each is written whole or not at all."""

    def __init__(self, path: Path, maker: PartMaker) -> None:
        """Open the folder, or make it.

        Raises ConfigError where it holds parts that another maker made, OutputError where it cannot
        be made.
        """
        self.path, self.maker = path, maker
        self._facts: dict[int, PartFacts] = {}
        settings, file = _settings(maker), path / _SETTINGS
        if file.exists():
            found = json.loads(file.read_text())
            if other := [name for name in settings if found.get(name) != settings[name]]:
                raise ConfigError(
                    f"{path} holds parts of another {', '.join(other)}: remove it, or name another "
                    "pack"
                )
        else:
            with explain_failure(path):
                path.mkdir(exist_ok=True)
                part = file.with_suffix(".part")
                part.write_text(json.dumps(settings))
                part.replace(file)

    def facts(self) -> dict[int, PartFacts]:
        """What is known of the parts that are there, by number."""
        for number in self._numbers():
            if number not in self._facts:
                self._facts[number] = self._read(read_facts, number)
        return self._facts

    def sample(self, number: int, row: int) -> Sample:
        """A sample of a part."""
        return self._read(read_sample, number, row)

    def _read(self, read: Callable[..., _T], number: int, *more: int) -> _T:
        """Raises InputError where the part is damaged."""
        file = self._file(number)
        try:
            return read(file, *more)
        except ValueError as error:
            raise InputError(f"{file} is damaged: remove it, and it is made again") from error

    def make(self, jobs: int) -> Iterator[PartFacts]:
        """Make parts that are missing, the first ones first, without end, in `jobs` processes."""
        there = set(self._numbers())
        missing = (number for number in count() if number not in there)
        if jobs == 1:
            for number in missing:
                yield self._make(number)
            return
        context = get_context("spawn")
        with ProcessPoolExecutor(jobs, context, _end_with_parent) as pool:
            try:
                running = {pool.submit(self._make, next(missing)) for _ in range(jobs)}
                while True:
                    done: set[Future[PartFacts]]
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    running |= {pool.submit(self._make, next(missing)) for _ in done}
                    for future in done:
                        yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _make(self, number: int) -> PartFacts:
        part = self.maker.make(number)
        with explain_failure(self.path):
            write_part(self._file(number), part)
        return part.facts

    def _file(self, number: int) -> Path:
        return self.path / f"{number:06d}.tar"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.tar"))


def _settings(maker: PartMaker) -> dict[str, object]:
    return {
        "kind": maker.kind,
        "seed": maker.seed,
        "version": __version__,
        "footage": _fingerprint(maker.folder, maker.files),
        "held-out footage": _fingerprint(maker.folder, maker.held),
    }


def _fingerprint(folder: Path, files: Sequence[Path]) -> str:
    """Of the names and sizes of files."""
    rows = [f"{path.relative_to(folder)} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _end_with_parent() -> None:
    """Of a worker: end when the process that started it ends, however it does."""

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


Networks = Mapping[str, Mapping[str, Tensor]]

_TABLES = "clips.csv", "photos.csv"
"""In the footage's folder, if it has them: `file` and `licence` of each."""
_SOURCE_BYTES = 400
"""What a file of the footage takes in the manifest, at most."""
_OWN_BYTES = 32_000
"""The rest of the manifest, and the archive's end."""
_BEST = 60.0
"""PSNR of pictures that are equal, or nearly so."""
_LOW = 5


def room_for_samples(most_bytes: int, networks: Networks) -> int:
    """Bytes that the networks leave in a pack. Raises ConfigError where they leave none."""
    taken = file_bytes(network_bytes(networks))
    left = most_bytes - taken - _OWN_BYTES
    if left <= 0:
        raise ConfigError(
            f"{most_bytes / 1e6:g} megabytes hold no pictures beside the networks, which take "
            f"{taken / 1e6:.1f}: give more"
        )
    return left


class _Filling:
    """What is in the pack so far."""

    def __init__(self, folder: PartFolder, room: int) -> None:
        """`room`: bytes."""
        self._folder, self._room = folder, room
        self._files: set[str] = set()
        self.clips: dict[str, int] = {}
        """Number of each clip that samples show."""
        self.samples: list[Mapping[str, bytes]] = []
        self.loss: list[tuple[float, float]] = []
        self.facts: list[PartFacts] = []
        """Of each sample's part."""

    def fill(self) -> None:
        """Take samples in random order until one does not fit."""
        facts = self._folder.facts()
        samples = [(number, row) for number, part in facts.items() for row in range(part.samples)]
        for place in default_rng(self._folder.maker.seed).permutation(len(samples)).tolist():
            number, row = samples[place]
            if not self._took(self._folder.sample(number, row), facts[number]):
                break

    def _took(self, sample: Sample, facts: PartFacts) -> bool:
        """Whether there was room for a sample of such a part."""
        arrays = {
            **sample.arrays,
            "held": np.array([facts.held], np.uint8),
            "clip": np.array([self.clips.get(facts.files[0], len(self.clips))], np.int32),
        }
        coded = sample_files(replace(sample, arrays=arrays), PACK_QUALITY)
        size = sum(map(file_bytes, coded.values()))
        size += _SOURCE_BYTES * len(set(facts.files) - self._files)
        if size > self._room:
            return False
        self._room -= size
        self._files |= set(facts.files)
        self.clips.setdefault(facts.files[0], len(self.clips))
        self.samples.append(coded)
        back = sample_of_files(coded, "a sample")
        self.loss += _losses(sample, back, KINDS[self._folder.maker.kind].restored)
        self.facts.append(facts)
        return True


def assemble(path: Path, folder: PartFolder, networks: Networks, most_bytes: int) -> dict[str, Any]:
    """Write the pack; returns its manifest. Raises ConfigError where not even a sample fits."""
    filling = _Filling(folder, room_for_samples(most_bytes, networks))
    filling.fill()
    if not filling.facts:
        raise ConfigError(f"not a sample fits into {most_bytes / 1e6:g} megabytes: give more")
    manifest = _manifest(folder, filling)
    with explain_failure(path):
        write_pack(path, manifest, filling.samples, network_bytes(networks), most_bytes)
    return manifest


def _manifest(folder: PartFolder, filling: _Filling) -> dict[str, Any]:
    maker, facts = folder.maker, filling.facts
    return {
        "kind": maker.kind,
        "side": KINDS[maker.kind].side,
        "gain_unit": GAIN_UNIT,
        "confidence_unit": CONFIDENCE_UNIT,
        "samples": len(facts),
        "held": sum(one.held for one in facts),
        "codings": dict(Counter(one.coding for one in facts)),
        "loss": _loss_summary(filling.loss),
        "held_out": [path.name for path in maker.held],
        "clips": list(filling.clips),
        "sources": _described(maker.folder, facts),
        "seed": maker.seed,
        "version": __version__,
        "seconds": round(sum(part.seconds for part in folder.facts().values()), 1),
    }


def _losses(sample: Sample, kept: Sample, restored: str) -> list[tuple[float, float]]:
    """PSNR of luma in dB of each picture's truth: as stored, and as it was coded."""
    truths, given = sample.stacks["truth"], sample.stacks[restored]
    rows = zip(truths, kept.stacks["truth"], given, strict=True)
    return [(_psnr(gray(a), gray(b)), _psnr(gray(a), gray(c))) for a, b, c in rows]


def _psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    error = float(np.square(a.astype(np.float64) - b).mean())
    return min(_BEST, float(-10 * np.log10(error / 255**2))) if error else _BEST


def _loss_summary(rows: Sequence[tuple[float, float]]) -> dict[str, dict[str, float]]:
    """Means and low ends of `_losses`."""
    columns = zip(("truth_luma", "damage_luma"), np.array(rows).T, strict=True)
    return {
        name: {"mean": round(float(v.mean()), 2), "low": round(float(np.percentile(v, _LOW)), 2)}
        for name, v in columns
    }


def _described(folder: Path, samples: Sequence[PartFacts]) -> list[dict[str, str | int]]:
    """Each file that samples show: name, SHA-256, how many, and its licence if a table has it.

    `samples`: facts of the part of each.
    """
    counts: Counter[str] = Counter()
    for facts in samples:
        counts.update(facts.files)
    licences = _licences(folder)
    rows = []
    for name, shown in sorted(counts.items()):
        row: dict[str, str | int] = {"file": name, "sha256": sha256_of(folder / name)}
        licence = licences.get(Path(name).name)
        rows.append(row | ({"licence": licence} if licence else {}) | {"samples": shown})
    return rows


def _licences(folder: Path) -> Mapping[str, str]:
    """Licence by the name of the file, without folders."""
    licences = {}
    for table in _TABLES:
        path = folder / table
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    licences[Path(row.get("file", "")).name] = row.get("licence", "")
    return licences
