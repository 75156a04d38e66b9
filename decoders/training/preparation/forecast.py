"""What preparing many clips takes, from what preparing a few took."""

import json
from dataclasses import dataclass
from pathlib import Path

from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.preparation.engine import WORKER_BYTES
from gsvc.decoders.training.preparation.shards import MANIFEST, Folder, costs_so_far

_HOUR = 3600.0


@dataclass(frozen=True)
class Stage:
    """An operator, and what it takes of processors."""

    name: str
    cpu_seconds: float
    """For each clip that is taken: the survey looks at more."""
    core_hours: float
    """For all clips."""


@dataclass(frozen=True)
class Forecast:
    """Of a job; bytes are of shards, decimal."""

    stages: tuple[Stage, ...]
    core_hours: float
    hours: float
    """If all cores are as busy as one was."""
    samples: int
    bytes: int
    shards: int
    bytes_a_second: float
    """That all nodes together write."""
    node_memory: int
    """Bytes that the workers of a node take."""


def forecast(path: Path, clips: int, nodes: int, cores: int) -> Forecast:
    """Extend what `path`, a folder of finished shards, took to `clips` on `nodes` of `cores`.

    Raises InputError where `path` holds no finished shards.
    """
    folder = Folder(path)
    try:
        made = json.loads((path / MANIFEST).read_text())
        few = int(made["clips"])
        size = sum(int(shard["bytes"]) for shard in made["shards"])
        shard_clips = int(made["settings"]["shard_clips"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} holds no finished shards: gsvc data prepare makes some to plan by"
        ) from error
    costs = costs_so_far(folder)
    if not few or not costs:
        raise InputError(f"{path} has no clips to plan by")
    each = {name: row["cpu"] / few for name, row in costs.items()}
    stages = tuple(Stage(name, cpu, cpu * clips / _HOUR) for name, cpu in each.items())
    core_hours = sum(stage.core_hours for stage in stages)
    hours = core_hours / (nodes * cores)
    worker = WORKER_BYTES + int(max(row["resident"] for row in costs.values()))
    return Forecast(
        stages=stages,
        core_hours=core_hours,
        hours=hours,
        samples=round(made["samples"] / few * clips),
        bytes=round(size / few * clips),
        shards=-(-clips // shard_clips),
        bytes_a_second=size / few * clips / (hours * _HOUR),
        node_memory=cores * worker,
    )
