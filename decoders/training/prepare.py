"""From sources to shards: survey, selection, shards, manifest.

The survey goes group by group, so that it goes on where it was stopped. A forecast says what
preparing many clips takes, from what preparing a few took.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.random import default_rng

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.media.output import explain_failure
from gsvc.decoders.training.engine import WORKER_BYTES, Engine
from gsvc.decoders.training.operators import Survey, clip_operators
from gsvc.decoders.training.shards import (
    MANIFEST,
    ClipItem,
    Folder,
    Item,
    SourceItem,
    WriteShard,
    costs_of,
    costs_so_far,
    manifest,
    write_json,
)
from gsvc.decoders.training.sources import Clip, Found, Settings, chosen

GROUP = 8
"""Sources whose findings are one file."""


@dataclass(frozen=True)
class WriteSurvey:
    """Writes what was found in a group of sources."""

    folder: Folder

    def __call__(self, items: Sequence[Item]) -> None:
        """`items`: those of one group, in order."""
        sources = [item for item in items if isinstance(item, SourceItem)]
        number = sources[0].number // GROUP
        rows = [
            {
                "address": item.address,
                "sha256": item.sha256,
                "bytes": item.bytes,
                "error": item.error,
                "found": [] if item.error else [asdict(each) for each in item.found],
            }
            for item in sources
        ]
        write_json(self.folder.costs("survey", number), costs_of(items))
        write_json(self.folder.surveyed(number), rows)


def survey(sources: Sequence[str], settings: Settings, folder: Folder, engine: Engine) -> None:
    """Survey those groups of sources that have not been."""
    missing = [
        SourceItem(number, address=address)
        for number, address in enumerate(sources)
        if not folder.surveyed(number // GROUP).exists()
    ]
    if missing:
        engine.run(missing, [Survey(settings)], WriteSurvey(folder), GROUP)


def survey_rows(sources: Sequence[str], folder: Folder) -> Iterator[dict[str, Any]]:
    """What was found in each source; `found` has objects. Raises InputError for a damaged file."""
    for number in range(-(-len(sources) // GROUP)):
        path = folder.surveyed(number)
        try:
            rows = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: remove it, and it is made again") from error
        for row in rows:
            yield {**row, "found": [_found(one, row) for one in row["found"]]}


def _found(found: dict[str, Any], row: dict[str, Any]) -> Found:
    """`row`: of the source; its clips share the strings."""
    same = {"address": row["address"], "sha256": row["sha256"]}
    return Found(Clip(**{**found["clip"], **same}), found["measures"], found["hash"])


_JOB = "job.json"
_WAVE = 4096
"""Clips that are given to the engine at once, about."""

Tell = Callable[..., None]
"""(event, **values): says what happened."""


def prepare(
    sources: Sequence[str], out: Path, settings: Settings, engine: Engine, tell: Tell
) -> dict[str, Any]:
    """Make what is missing of the shards in `out`; returns the manifest.

    Raises as `look_through`.
    """
    folder = Folder(out)
    rows, clips, reasons = look_through(sources, out, settings, engine, tell)
    order = default_rng(settings.seed).permutation(len(clips)).tolist()
    _make_shards([clips[number] for number in order], settings, folder, engine, tell)
    made = manifest(folder, rows, reasons, clips, settings)
    write_json(out / MANIFEST, made)
    return made


Rows = list[dict[str, Any]]
"""What a survey says of sources, without their clips."""


def look_through(
    sources: Sequence[str], out: Path, settings: Settings, engine: Engine, tell: Tell
) -> tuple[Rows, list[Found], dict[str, str]]:
    """Survey what has not been; returns what `taken_clips` does.

    Raises ConfigError where `out` was begun with other sources or settings, InputError where no
    clip is left.
    """
    folder = Folder(out)
    with explain_failure(out):
        folder.make()
    _same_job(folder, sources, settings)
    survey(sources, settings, folder, engine)
    rows, clips, reasons = taken_clips(sources, settings, folder)
    tell("surveyed", sources=len(rows), clips=len(clips), set_aside=len(reasons))
    if not clips:
        raise InputError(f"no clip is left of {len(rows)} sources: {_why(rows, reasons)}")
    return rows, clips, reasons


def taken_clips(
    sources: Sequence[str], settings: Settings, folder: Folder
) -> tuple[Rows, list[Found], dict[str, str]]:
    """Of what was surveyed: the sources, the clips to take, and why others are not taken."""
    rows: Rows = []
    clips, reasons = chosen(_prepare_found(survey_rows(sources, folder), rows), settings)
    return rows, clips, reasons


def begun_job(folder: Folder) -> tuple[list[str], Settings]:
    """Sources and settings of a folder. Raises InputError where nothing was prepared in it."""
    try:
        job = json.loads((folder.path / _JOB).read_text())
        return list(job["sources"]), Settings(**job["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"nothing was prepared in {folder.path}: gsvc data prepare --survey-only begins"
        ) from error


def _prepare_found(
    surveyed: Iterable[dict[str, Any]], rows: list[dict[str, Any]]
) -> Iterator[Found]:
    """The clips of each source; `rows` gets what else the survey says of it."""
    for row in surveyed:
        yield from row.pop("found")
        rows.append(row)


def _same_job(folder: Folder, sources: Sequence[str], settings: Settings) -> None:
    path = folder.path / _JOB
    own = {"settings": asdict(settings), "sources": list(sources), "version": __version__}
    job = json.loads(json.dumps(own))
    if not path.exists():
        write_json(path, job)
        return
    found = json.loads(path.read_text())
    if other := [name for name in job if found.get(name) != job[name]]:
        raise ConfigError(
            f"{folder.path} was begun with other {', '.join(other)}: name another folder"
        )


def _make_shards(
    clips: Sequence[Found], settings: Settings, folder: Folder, engine: Engine, tell: Tell
) -> None:
    """Those shards that are not there, a wave of them at a time."""
    size = settings.shard_clips
    shards = -(-len(clips) // size)
    missing = [number for number in range(shards) if not folder.table(number).exists()]
    operators = clip_operators(settings)
    left = sum(min(len(clips), (n + 1) * size) - n * size for n in missing)
    tell("making", clips=left, shards=len(missing))
    while missing:
        # The first shard shows what networks take of a GPU; then they are placed by it.
        is_first = any(x.resources.device_memory for x in operators) and len(missing) == shards
        wave = 1 if is_first else max(1, _WAVE // size)
        items = [
            ClipItem(number, clip=clips[number].clip, measures=clips[number].measures)
            for shard in missing[:wave]
            for number in range(shard * size, min(len(clips), (shard + 1) * size))
        ]
        engine.run(items, operators, WriteShard(folder, size), size)
        missing = missing[wave:]
        tell("made", shards=shards - len(missing), of=shards)


def _why(rows: Sequence[dict[str, Any]], reasons: dict[str, str]) -> str:
    errors = [f"{row['address']} {row['error']}" for row in rows if row["error"]]
    return next(iter([*reasons.values(), *errors]), "none is long enough")


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
