"""Shards: tar files as WebDataset reads them, each with a table of what is where in it."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.output import atomic_output
from gsvc.codec.weights.package_files import sha256_of
from gsvc.decoders.training.preparation.items import ClipItem, Cost, Crop, Item, Members

MANIFEST = "manifest.json"
_TABLES, _COSTS = "tables", "costs"
_MODE = 0o644
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
                member = tarfile.TarInfo(f"{crop.key}.{name}")
                member.size, member.mode = len(data), _MODE
                start = tar.offset + tarfile.BLOCKSIZE  # a header of ustar is one block
                tar.addfile(member, io.BytesIO(data))
                files[name] = [start, len(data)]
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
