"""Samples that pass through the pipeline, and shards of them: tar files as WebDataset reads them.

Each shard has a table of what is where in it. The manifest says what a folder of shards holds,
where it is from, and what making it took.
"""

import json
import pickle
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.output import atomic_output
from gsvc.codec.planning.process import peak_memory
from gsvc.codec.weights.model_files import sha256_of
from gsvc.decoders.training import samples, sources

Members = dict[str, bytes]
"""Files of a sample, by what stands after its key."""


class Cost(NamedTuple):
    """What an operator took for one item."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of processors, of all threads of its process."""
    resident: int = 0
    """Bytes of memory that its process had held at most when it was done."""
    device: int = 0
    """Bytes that PyTorch had reserved on a GPU at most; 0 on a CPU."""


class Resources(NamedTuple):
    """What an operator needs while it runs."""

    cpus: float = 1.0
    """Cores that it keeps busy."""
    memory: int = 1_000_000_000
    """Bytes, libraries included, until they are measured."""
    device_memory: int = 0
    """Bytes of a GPU, until they are measured; 0: it has no use for one."""
    seconds: float = 600.0
    """That it may take for an item, which is set aside where it takes longer."""


@dataclass
class Item:
    """A source or a clip on its way."""

    number: int
    error: str = ""
    """Why it is set aside; what comes after leaves it alone."""
    costs: dict[str, Cost] = field(default_factory=dict)


@dataclass
class SourceItem(Item):
    """A source, and what the survey found in it."""

    address: str = ""
    sha256: str = ""
    bytes: int = 0
    found: list[sources.Found] = field(default_factory=list)


@dataclass
class Crop:
    """A sample that was cut out of a coded clip."""

    key: str
    sample: samples.Sample
    members: Members = field(default_factory=dict)


@dataclass
class ClipItem(Item):
    """A clip, its frames and what was cut out of what they were coded as."""

    clip: sources.Clip | None = None
    measures: dict[str, float] = field(default_factory=dict)
    lambdas: tuple[int, ...] = ()
    """Numbers of the lambdas that it is encoded with; empty for all."""
    frames: list[Picture] = field(default_factory=list)
    crops: list[Crop] = field(default_factory=list)


UNCOUNTED = "_"
"""What the name of an operator begins with that does nothing worth a line in reports."""


class OnCard(NamedTuple):
    """Where an operator with a network runs: perhaps a GPU that it shares."""

    device: str = "cpu"
    fraction: float = 1.0
    """Of a GPU's memory that PyTorch may take."""


@dataclass
class Operator:
    """One step of the pipeline. It is sent to where it runs: what it loads, it loads there."""

    name: str
    work: Callable[..., None]
    """A function of an item of the kind that it is for, and where a network runs of `place`, an
    `OnCard`. What it raises sets the item aside."""
    resources: Resources = field(default_factory=Resources)


def carried_out(operator: Operator, item: Item) -> None:
    """Let an operator do its work, and note what it took. Whatever it raises is the item's error:
    one bad file must not end a job of a weekend."""
    if item.error:
        return
    wall, cpu = time.monotonic(), time.process_time()
    try:
        operator.work(item)
    except GsvcError as error:
        item.error = str(error)
    except Exception as error:  # noqa: BLE001 - of any library, over any file
        item.error = f"{operator.name}: {type(error).__name__}: {error}"
    if operator.name.startswith(UNCOUNTED):
        return
    seconds = time.monotonic() - wall, time.process_time() - cpu
    torch = sys.modules.get("torch")  # an operator without a network does not load it
    has_card = torch is not None and torch.cuda.is_initialized()
    reserved = int(torch.cuda.max_memory_reserved()) if torch and has_card else 0
    item.costs[operator.name] = Cost(*seconds, peak_memory() or 0, reserved)


def in_row(item: Item) -> dict[str, bytes]:
    """A row of Ray Data."""
    return {"item": pickle.dumps(item, protocol=5)}


def of_row(row: dict[str, bytes]) -> Item:
    """The item of a row that the pipeline itself made."""
    item: Item = pickle.loads(row["item"])
    return item


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


def write_shard(folder: Folder, shard_clips: int, items: Sequence[Item]) -> None:
    """Write the clips of a shard, in order: table, hash and all, whole or not at all."""
    clips = [item for item in items if isinstance(item, ClipItem)]
    number = clips[0].number // shard_clips
    assert {item.number // shard_clips for item in clips} == {number}
    tar = folder.tar(number)
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
    write_json(folder.costs("shards", number), costs_of(items))
    write_json(folder.table(number), table)


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
    for key, value in row.items():
        own[key] = max(own[key], value) if key in _PEAKS else own[key] + value


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
                files[name] = [samples.add_file(tar, f"{crop.key}.{name}", data), len(data)]
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
