"""The pack out of its parts: as many samples as fit, in random order."""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from torch import Tensor

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.media.output import explain_failure
from gsvc.codec.weights.package_files import sha256_of
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.training.packing.kinds import KINDS, Kind, Sample, Stacks, stored
from gsvc.decoders.training.packing.parts import PACK_QUALITY, PartFacts, PartFolder
from gsvc.decoders.training.standalone.pack import network_bytes, write_pack
from gsvc.decoders.training.standalone.samples import (
    CONFIDENCE_UNIT,
    GAIN_UNIT,
    file_bytes,
    sample_files,
    sample_of_files,
)

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
        self._kind = KINDS[folder.maker.kind]
        self._files: set[str] = set()
        self.clips: dict[str, int] = {}
        """Number of each clip that samples show."""
        self.samples: list[Mapping[str, bytes]] = []
        self.loss: list[NDArray[np.float32]] = []
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
        coded = sample_files(stored(replace(sample, arrays=arrays)), PACK_QUALITY)
        size = sum(map(file_bytes, coded.values()))
        size += _SOURCE_BYTES * len(set(facts.files) - self._files)
        if size > self._room:
            return False
        self._room -= size
        self._files |= set(facts.files)
        self.clips.setdefault(facts.files[0], len(self.clips))
        self.samples.append(coded)
        back = sample_of_files(coded, "a sample").stacks
        self.loss.append(_stored_loss(sample.stacks, back, self._kind))
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
        "loss": _loss_summary(np.concatenate(filling.loss)),
        "held_out": [path.name for path in maker.held],
        "clips": list(filling.clips),
        "sources": _described(maker.folder, facts),
        "seed": maker.seed,
        "version": __version__,
        "seconds": round(sum(part.seconds for part in folder.facts().values()), 1),
    }


def _stored_loss(
    source: Stacks, kept: Mapping[str, NDArray[np.uint8]], kind: Kind
) -> NDArray[np.float32]:
    """PSNR in dB, float32 (N, 6), a row a picture of `truth`; each of luma, then of RGB.

    Of the truth as stored against the truth; of the input as stored against the input; of the input
    against the truth.
    """
    names = "truth", kind.restored
    exact, back = ([of[name] for name in names] for of in (source, kept))
    pairs = (back[0], exact[0]), (back[1], exact[1]), (exact[1], exact[0])
    rows = []
    for number in range(len(exact[0])):
        both = [(a[number], b[number]) for a, b in pairs]
        rows.append([psnr for a, b in both for psnr in (_psnr(gray(a), gray(b)), _psnr(a, b))])
    return np.array(rows, np.float32)


def _psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    error = float(np.square(a.astype(np.float64) - b).mean())
    return min(_BEST, float(-10 * np.log10(error / 255**2))) if error else _BEST


def _loss_summary(rows: NDArray[np.float32]) -> dict[str, dict[str, float]]:
    """Means and low ends of `_stored_loss`, and of how much less storing loses than coding did."""
    columns = dict(
        zip(
            ("truth_luma", "truth_rgb", "input_luma", "input_rgb", "damage_luma", "damage_rgb"),
            rows.T,
            strict=True,
        )
    )
    columns["truth_above_damage_luma"] = columns["truth_luma"] - columns["damage_luma"]
    return {
        name: {"mean": round(float(v.mean()), 2), "low": round(float(np.percentile(v, _LOW)), 2)}
        for name, v in columns.items()
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
    for name, count in sorted(counts.items()):
        row: dict[str, str | int] = {"file": name, "sha256": sha256_of(folder / name)}
        licence = licences.get(Path(name).name)
        rows.append(row | ({"licence": licence} if licence else {}) | {"samples": count})
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
