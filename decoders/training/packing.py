"""Packs: parts, each with the samples of one coded run, and the pack that is put together of them.

A part is a shard of samples as the pack has them. The seed and the part's number decide all that is
in it. A folder keeps the parts until the pack is complete, so that a command that was killed goes
on. The pack takes as many samples as fit, in random order.
"""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from numpy.random import Generator, default_rng
from torch import Tensor

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.output import explain_failure, note_settings
from gsvc.codec.weights.model_files import sha256_of
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.training import crops, guard, packs, samples as stored
from gsvc.decoders.training.footage import Footage, Scene

_HELD_EVERY = 12  # one part in so many is of what was held out
_DRAWS = 10  # places tried for a run of frames
PACK_QUALITY = 92
"""Of WebP: video keeps about 44 dB of luma."""
_BEST = 60.0  # PSNR of pictures that are equal, or nearly so
_JSON = "json"
Files = Mapping[str, bytes]
"""Of a sample, as of `sample_files`; its JSON also says `files`, `held`, `loss`."""


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

    def make(self, number: int) -> list[Files]:
        """The samples of the part of that number; none where no footage was long enough."""
        cv2.setNumThreads(1)
        torch.set_num_threads(1)
        rng = default_rng((self.seed, number))
        is_held = bool(self.held) and number % _HELD_EVERY == _HELD_EVERY - 1
        kind = crops.KINDS[self.kind]
        found = _coded(self._footage[is_held], rng)
        if found is None:
            return []
        scene, run = found
        files = [str(path.relative_to(self.folder)) for path in scene.files]
        about = {"files": files, "held": is_held}
        return [
            _stored(sample, about, kind.restored) for sample in kind.samples(run, kind.side, rng)
        ]

    @cached_property
    def _footage(self) -> tuple[Footage, Footage]:
        """To train on, and held out."""
        return Footage(self.files, crops.KINDS[self.kind].clips), Footage(self.held, clips=1.0)


def _stored(sample: stored.Sample, about: Mapping[str, Any], restored: str) -> Files:
    arrays = {**sample.arrays, "held": np.array([about["held"]], np.uint8)}
    files = stored.sample_files(replace(sample, arrays=arrays), PACK_QUALITY)
    back = stored.sample_of_files(files, "a sample")
    loss = _losses(sample, back, restored)
    facts = json.loads(files[_JSON]) | about | {"loss": loss}
    return {**files, _JSON: json.dumps(facts, sort_keys=True).encode()}


def _losses(sample: stored.Sample, back: stored.Sample, restored: str) -> list[tuple[float, float]]:
    """PSNR of luma in dB of each picture's truth: as stored, and as it was coded."""
    truths, given = sample.stacks["truth"], sample.stacks[restored]

    def psnr(a: Picture, b: Picture) -> float:
        return min(_BEST, cv2.PSNR(gray(a), gray(b)))

    rows = zip(truths, back.stacks["truth"], given, strict=True)
    return [(psnr(a, b), psnr(a, c)) for a, b, c in rows]


def _coded(footage: Footage, rng: Generator) -> tuple[Scene, crops.CodedRun] | None:
    for _ in range(_DRAWS):
        stream = crops.random_stream(rng)
        scene = footage.scene(stream.frames, rng)
        if scene is not None:
            frames = [scene.frame(number) for number in range(stream.frames)]
            return scene, crops.coded_stream(frames, stream)
    return None


class PartSize(NamedTuple):
    """How much a part brings."""

    samples: int
    bytes: int
    """That they take in a pack."""


def _size(samples: Sequence[Files]) -> PartSize:
    return PartSize(len(samples), sum(map(_bytes, samples)))


def _bytes(sample: Files) -> int:
    return sum(map(stored.file_bytes, sample.values()))


class PartFolder:
    """Parts of one maker, by number; each is written whole or not at all."""

    def __init__(self, path: Path, maker: PartMaker) -> None:
        """Open the folder, or make it.

        Raises ConfigError for parts of another maker, OutputError where it cannot be made.
        """
        self.path, self.maker = path, maker
        with explain_failure(path):
            path.mkdir(exist_ok=True)
        told = {
            "kind": maker.kind,
            "seed": maker.seed,
            "version": __version__,
            "footage": _fingerprint(maker.folder, maker.files),
            "held-out footage": _fingerprint(maker.folder, maker.held),
        }
        note_settings(path / "parts.json", told)

    def parts(self) -> Iterator[list[dict[str, bytes]]]:
        """The samples of each part that is there. Raises InputError where one is damaged."""
        for path in self._paths():
            yield stored.by_sample(stored.read_files(path))

    def sizes(self) -> list[PartSize]:
        """Of the parts that are there. Errors as of `parts`."""
        return [_size(part) for part in self.parts()]

    def make(self, jobs: int) -> Iterator[PartSize]:
        """Make parts that are missing, the first ones first, without end, in `jobs` processes."""
        there = {int(path.stem) for path in self._paths()}
        missing = (number for number in count() if number not in there)
        if jobs == 1:
            yield from map(self.write, missing)
            return
        with ProcessPoolExecutor(jobs, get_context("spawn"), guard.die_with_parent) as pool:
            while True:
                yield from pool.map(self.write, islice(missing, _AT_ONCE * jobs))

    def write(self, number: int) -> PartSize:
        """Make one part."""
        made = self.maker.make(number)
        named = {f"{n:06d}.{name}": data for n, x in enumerate(made) for name, data in x.items()}
        with explain_failure(self.path):
            stored.write_files(self.path / f"{number:06d}.tar", named.items())
        return _size(made)

    def _paths(self) -> list[Path]:
        return sorted(self.path.glob(stored.SHARD_PATTERN))


def _fingerprint(folder: Path, files: Sequence[Path]) -> str:
    rows = [f"{path.relative_to(folder)} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


Networks = Mapping[str, Mapping[str, Tensor]]

_AT_ONCE = 4  # parts of each process that are asked for together
_TABLES = "clips.csv", "photos.csv"
"""In the footage's folder, if it has them: `file` and `licence` of each."""
_SOURCE_BYTES = 400  # what a file of the footage takes in the manifest, at most
_OWN_BYTES = 32_000  # the rest of the manifest, and the archive's end
_LOW = 5


def room_for_samples(most_bytes: int, networks: Networks) -> int:
    """Bytes that the networks leave in a pack. Raises ConfigError where they leave none."""
    taken = stored.file_bytes(packs.network_bytes(networks))
    left = most_bytes - taken - _OWN_BYTES
    if left <= 0:
        raise ConfigError(
            f"{most_bytes / 1e6:g} megabytes hold no pictures beside the networks, which take "
            f"{taken / 1e6:.1f}: give more"
        )
    return left


def assemble(path: Path, folder: PartFolder, networks: Networks, most_bytes: int) -> dict[str, Any]:
    """Write the pack; returns its manifest. Raises ConfigError where not even a sample fits."""
    samples, facts = _chosen(folder, room_for_samples(most_bytes, networks))
    if not samples:
        raise ConfigError(f"not a sample fits into {most_bytes / 1e6:g} megabytes: give more")
    manifest = _manifest(folder.maker, facts)
    with explain_failure(path):
        packs.write_pack(path, manifest, samples, packs.network_bytes(networks), most_bytes)
    return manifest


def _chosen(folder: PartFolder, room: int) -> tuple[list[Files], list[dict[str, Any]]]:
    found = [sample for part in folder.parts() for sample in part]
    taken: list[Files] = []
    facts: list[dict[str, Any]] = []
    shown = set[str]()
    for number in default_rng(folder.maker.seed).permutation(len(found)).tolist():
        about = json.loads(found[number][_JSON])
        room -= _bytes(found[number]) + _SOURCE_BYTES * len(set(about["files"]) - shown)
        if room < 0:
            break
        shown |= set(about["files"])
        taken.append(found[number])
        facts.append(about)
    return taken, facts


def _manifest(maker: PartMaker, facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = np.array([row for one in facts for row in one["loss"]]).T
    columns = zip(("truth_luma", "damage_luma"), rows, strict=True)
    return {
        "kind": maker.kind,
        "side": crops.KINDS[maker.kind].side,
        "samples": len(facts),
        "held": sum(one["held"] for one in facts),
        "loss": {
            name: {
                "mean": round(float(v.mean()), 2),
                "low": round(float(np.percentile(v, _LOW)), 2),
            }
            for name, v in columns
        },
        "held_out": [path.name for path in maker.held],
        "sources": _described(maker.folder, Counter(x for one in facts for x in one["files"])),
        "seed": maker.seed,
        "version": __version__,
    }


def _described(folder: Path, counts: Mapping[str, int]) -> list[dict[str, str | int]]:
    """Each file that samples show: name, SHA-256, how many, and its licence if a table has it."""
    licences: dict[str, str] = {}  # by the name of the file, without folders
    for path in (folder / table for table in _TABLES if (folder / table).exists()):
        with path.open(newline="", encoding="utf-8") as file:
            for told in csv.DictReader(file):
                licences[Path(told.get("file", "")).name] = told.get("licence", "")
    rows = []
    for name, shown in sorted(counts.items()):
        row: dict[str, str | int] = {"file": name, "sha256": sha256_of(folder / name)}
        licence = licences.get(Path(name).name)
        rows.append(row | ({"licence": licence} if licence else {}) | {"samples": shown})
    return rows
