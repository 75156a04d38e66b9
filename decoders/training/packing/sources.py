"""The footage that a pack was made of: files, hashes, licences."""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gsvc.codec.weights.package_files import sha256_of
from gsvc.decoders.training.packing.parts import PartFacts

_TABLES = "clips.csv", "photos.csv"
"""In the footage's folder, if it has them: `file` and `licence` of each."""


def described(folder: Path, samples: Sequence[PartFacts]) -> list[dict[str, str | int]]:
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
