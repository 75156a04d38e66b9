"""Shards: tar files as WebDataset reads them, with a table of what is where in each.

The manifest says what a folder of shards holds, where it is from, and what making it took.
"""

import json
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gsvc import __version__
from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.output import atomic_output
from gsvc.codec.weights.package_files import sha256_of
from gsvc.decoders.training.preparation.prepared_samples import ClipItem, Cost, Crop, Item, Members
from gsvc.decoders.training.preparation.selection import Found
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.standalone.samples import add_file

MANIFEST = "manifest.json"
_TABLES, _COSTS = "tables", "costs"
_PEAKS = "resident", "device"

Costs = dict[str, dict[str, float]]
"""What operators took, by name: `items` and the fields of `Cost`, summed; of memory the most."""


@dataclass(frozen=True)
class Folder:
    """Where prepared shards lie: `000000.tar` and on, `tables/` and `costs/` beside them."""

    path: Path

    def tar(self, number: int) -> Path:
        """A shard."""
        return self.path / f"{number:06d}.tar"

    def table(self, number: int) -> Path:
        """What is in it: written last, so that a shard that has one is whole."""
        return self.path / _TABLES / f"{number:06d}.json"

    def costs(self, stage: str, number: int) -> Path:
        """What it took."""
        return self.path / _COSTS / f"{stage}-{number:06d}.json"

    def surveyed(self, number: int) -> Path:
        """What the survey of a group of sources found."""
        return self.path / "survey" / f"{number:06d}.json"

    def make(self) -> None:
        """Make the folders."""
        for part in (_TABLES, _COSTS, "survey"):
            (self.path / part).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class WriteShard:
    """Writes the clips of a shard: table, hash and all, whole or not at all."""

    folder: Folder
    shard_clips: int

    def __call__(self, items: Sequence[Item]) -> None:
        """`items`: those of one shard, in order."""
        clips = [item for item in items if isinstance(item, ClipItem)]
        number = clips[0].number // self.shard_clips
        assert {item.number // self.shard_clips for item in clips} == {number}
        tar = self.folder.tar(number)
        crops = [crop for item in clips if not item.error for crop in item.crops]
        with atomic_output(tar, overwrite=True) as part:
            places = write_tar(part, crops)
        poison = {str(item.clip and item.clip.key): item.error for item in clips if item.error}
        table = {
            "sha256": sha256_of(tar),
            "bytes": tar.stat().st_size,
            "clips": len(clips) - len(poison),
            "poison": poison,
            "samples": places,
        }
        write_json(self.folder.costs("shards", number), costs_of(items))
        write_json(self.folder.table(number), table)


def costs_of(items: Sequence[Item]) -> Costs:
    """Items, seconds and seconds of processors by operator, and the most memory."""
    found: Costs = {}
    for item in items:
        for name, cost in item.costs.items():
            _add(found, name, {"items": 1.0, **cost._asdict()})
    return found


def costs_so_far(folder: Folder) -> Costs:
    """Those of all calls."""
    found: Costs = {}
    for path in sorted((folder.path / _COSTS).glob("*.json")):
        for name, row in json.loads(path.read_text()).items():
            _add(found, name, row)
    return found


def _add(costs: Costs, name: str, row: Mapping[str, float]) -> None:
    own = costs.setdefault(name, dict.fromkeys(("items", *Cost._fields), 0.0))
    for field, value in row.items():
        own[field] = max(own[field], value) if field in _PEAKS else own[field] + value


def write_json(path: Path, value: object) -> None:
    """Write a file of JSON whole or not at all."""
    with atomic_output(path, overwrite=True) as part:
        part.write_text(json.dumps(value, sort_keys=True))


def write_tar(path: Path, crops: Sequence[Crop]) -> list[dict[str, Any]]:
    """Write samples; returns of each its key and where the bytes of its files are."""
    places = []
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for crop in crops:
            files = {}
            for name, data in sorted(crop.members.items()):
                files[name] = [add_file(tar, f"{crop.key}.{name}", data), len(data)]
            places.append({"key": crop.key, "files": files})
    return places


def read_members(tar: Path, files: Mapping[str, Sequence[int]]) -> Members:
    """The files of one sample. Raises InputError where the shard is not there or cut short."""
    try:
        with tar.open("rb") as file:
            members = {}
            for name, (start, size) in files.items():
                file.seek(start)
                members[name] = file.read(size)
    except OSError as error:
        raise InputError(f"{tar} cannot be read ({error.strerror})") from error
    if any(len(members[name]) != size for name, (_, size) in files.items()):
        raise InputError(f"{tar} is cut short: prepare it again")
    return members


_PERCENTILES = 5, 50, 95


def manifest(
    folder: Folder,
    rows: Sequence[Mapping[str, Any]],
    reasons: Mapping[str, str],
    clips: Sequence[Found],
    settings: Settings,
) -> dict[str, Any]:
    """The same for the same sources and settings, however often making it was stopped."""
    shards = -(-len(clips) // settings.shard_clips)
    tables = [json.loads(folder.table(number).read_text()) for number in range(shards)]
    poison = {row["address"]: row["error"] for row in rows if row["error"]}
    poison |= {key: why for table in tables for key, why in table["poison"].items()}
    return {
        "format": 1,
        "version": __version__,
        "kind": settings.kind,
        "settings": asdict(settings),
        "surveyed": len(rows),
        "sources": [
            {name: row[name] for name in ("address", "sha256", "bytes")}
            for row in rows
            if not row["error"]
        ],
        "shards": [
            {
                "file": folder.tar(number).name,
                "sha256": table["sha256"],
                "bytes": table["bytes"],
                "clips": table["clips"],
                "samples": len(table["samples"]),
            }
            for number, table in enumerate(tables)
        ],
        "samples": sum(len(table["samples"]) for table in tables),
        "clips": sum(table["clips"] for table in tables),
        "set_aside": dict(Counter(_kind(why) for why in reasons.values())),
        "reasons": dict(reasons),
        "poison": poison,
        "statistics": _statistics(clips),
    }


def _kind(why: str) -> str:
    return "copy" if why.startswith("shows the same") else why.split()[0]


def _statistics(clips: Sequence[Found]) -> dict[str, dict[str, float]]:
    """Percentiles of the measures of the clips that were taken."""
    return {
        name: {
            f"p{share}": round(float(np.percentile([x.measures[name] for x in clips], share)), 4)
            for share in _PERCENTILES
        }
        for name in clips[0].measures
    }


def cpu_seconds(folder: Folder) -> float:
    """Of processors, that all operators took in all calls."""
    return sum(row["cpu"] for row in costs_so_far(folder).values())


def report(folder: Folder) -> list[dict[str, float | str]]:
    """What each operator took: items, seconds an item, items a second and worker; of all calls."""
    rows: list[dict[str, float | str]] = []
    for name, row in costs_so_far(folder).items():
        each = row["wall"] / row["items"]
        rows.append(
            {
                "operator": name,
                "items": int(row["items"]),
                "seconds an item": round(each, 3),
                "cpu seconds an item": round(row["cpu"] / row["items"], 3),
                "items a second and worker": round(1 / max(each, 1e-9), 2),
                "MB at most": round(row["resident"] / 1e6),
                "MB of a GPU": round(row["device"] / 1e6),
            }
        )
    return rows
