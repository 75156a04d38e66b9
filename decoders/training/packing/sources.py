"""The footage that a pack was made of: files, hashes, licences."""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gsvc.codec.hashes import sha256_of
from gsvc.decoders.training.packing.parts import Part

_TABLES = "clips.csv", "photos.csv"
"""In the footage's folder, if it has them: `file` and `licence` of each."""


def described(folder: Path, parts: Sequence[Part]) -> list[dict[str, str | int]]:
    """Each file shown in the parts: its name, SHA-256, licence if a table has it, and samples."""
    counts: Counter[str] = Counter()
    for part in parts:
        for name in part.facts.files:
            counts[name] += part.facts.samples
    licences = _licences(folder)
    rows = []
    for name, samples in sorted(counts.items()):
        row: dict[str, str | int] = {"file": name, "sha256": sha256_of(folder / name)}
        licence = licences.get(Path(name).name)
        rows.append(row | ({"licence": licence} if licence else {}) | {"samples": samples})
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
