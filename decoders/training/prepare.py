"""From sources to shards: survey, selection, shards, manifest.

The survey goes group by group, so that it goes on where it was stopped. A forecast says what
preparing many clips takes, from what preparing a few took.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from numpy.random import default_rng

from gsvc import __version__
from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.output import explain_failure, note_settings
from gsvc.decoders.training import pipeline
from gsvc.decoders.training.engine import WORKER_BYTES, Engine
from gsvc.decoders.training.operators import clip_operators, survey
from gsvc.decoders.training.sources import Clip, Found, Settings, chosen

Row = dict[str, Any]
GROUP = 8
"""Sources whose findings are one file."""


def _write_survey(folder: pipeline.Folder, items: Sequence[pipeline.Item]) -> None:
    sources = [item for item in items if isinstance(item, pipeline.SourceItem)]
    number = sources[0].number // GROUP
    rows = [
        {
            **{name: getattr(item, name) for name in ("address", "sha256", "bytes", "error")},
            "found": [] if item.error else [asdict(each) for each in item.found],
        }
        for item in sources
    ]
    pipeline.write_json(folder.costs("survey", number), pipeline.costs_of(items))
    pipeline.write_json(folder.surveyed(number), rows)


class Selection(NamedTuple):
    """What a survey came to."""

    sources: list[Row]
    """What it says of each, without its clips."""
    clips: list[Found]
    reasons: dict[str, str]
    """Why others are not taken, by the key of each."""


def selection(sources: Sequence[str], settings: Settings, folder: pipeline.Folder) -> Selection:
    """Choose among what was surveyed. Raises InputError for a damaged file."""
    rows: list[Row] = []

    def found() -> Iterator[Found]:
        for number in range(-(-len(sources) // GROUP)):
            path = folder.surveyed(number)
            try:
                surveyed: list[Row] = json.loads(path.read_text())
            except (OSError, ValueError) as error:
                raise InputError(f"{path} is damaged: remove it, and it is made again") from error
            for row in surveyed:
                same = {"address": row["address"], "sha256": row["sha256"]}  # one string for all
                for one in row.pop("found"):
                    yield Found(Clip(**{**one["clip"], **same}), one["measures"], one["hash"])
                rows.append(row)

    clips, reasons = chosen(found(), settings)
    return Selection(rows, clips, reasons)


_JOB = "job.json"
_LINE_SECONDS = 10.0
_WAVE = 4096  # clips that are given to the engine at once, about


def begun_job(folder: pipeline.Folder) -> tuple[list[str], Settings]:
    """Sources and settings of a folder. Raises InputError where nothing was prepared in it."""
    try:
        job = json.loads((folder.path / _JOB).read_text())
        return list(job["sources"]), Settings(**job["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"nothing was prepared in {folder.path}: gsvc data prepare --survey-only begins"
        raise InputError(why) from error


@dataclass(frozen=True)
class Preparation:
    """A job: what sources show becomes the shards of a folder."""

    sources: Sequence[str]
    folder: pipeline.Folder
    settings: Settings
    engine: Engine
    tell: Callable[..., None]
    """(event, **values): says what happened."""

    def prepare(self) -> Row:
        """Make what is missing of the shards; returns the manifest. Raises as `look_through`."""
        selected = self.look_through()
        clips = selected.clips
        order = default_rng(self.settings.seed).permutation(len(clips)).tolist()
        self._make_shards([clips[number] for number in order])
        made = _manifest(self.folder, selected, self.settings)
        pipeline.write_json(self.folder.path / pipeline.MANIFEST, made)
        return made

    def look_through(self) -> Selection:
        """Survey those groups of sources that have not been.

        Raises ConfigError where the folder was begun otherwise, InputError where no clip is left.
        """
        with explain_failure(self.folder.path):
            self.folder.make()
        job = {"settings": asdict(self.settings), "sources": list(self.sources)}
        note_settings(self.folder.path / _JOB, {**job, "version": __version__})
        missing = [
            pipeline.SourceItem(number, address=address)
            for number, address in enumerate(self.sources)
            if not self.folder.surveyed(number // GROUP).exists()
        ]
        if missing:
            write = partial(_write_survey, self.folder)
            done = self.engine(missing, [survey(self.settings)], write, GROUP)
            self._follow(done, "surveying", len(missing))
        selected = selection(self.sources, self.settings, self.folder)
        rows, clips, reasons = selected
        self.tell("surveyed", sources=len(rows), clips=len(clips), set_aside=len(reasons))
        if not clips:
            errors = [f"{row['address']} {row['error']}" for row in rows if row["error"]]
            why = next(iter([*reasons.values(), *errors]), "none is long enough")
            raise InputError(f"no clip is left of {len(rows)} sources: {why}")
        return selected

    def _make_shards(self, clips: Sequence[Found]) -> None:
        size, folder = self.settings.shard_clips, self.folder
        shards = -(-len(clips) // size)
        missing = [number for number in range(shards) if not folder.table(number).exists()]
        operators = clip_operators(self.settings)
        left = sum(min(len(clips), (n + 1) * size) - n * size for n in missing)
        self.tell("making", clips=left, shards=len(missing))
        while missing:
            # The first shard shows what networks take of a GPU; then they are placed by it.
            is_first = any(x.resources.device_memory for x in operators) and len(missing) == shards
            wave = 1 if is_first else max(1, _WAVE // size)
            items = [
                pipeline.ClipItem(number, clip=clips[number].clip, measures=clips[number].measures)
                for shard in missing[:wave]
                for number in range(shard * size, min(len(clips), (shard + 1) * size))
            ]
            write = partial(pipeline.write_shard, folder, size)
            self._follow(self.engine(items, operators, write, size), "coding", len(items))
            missing = missing[wave:]
            self.tell("made", shards=shards - len(missing), of=shards)

    def _follow(self, done: Iterator[int], event: str, count: int) -> None:
        """Let an engine work; now and then, tell how many of so many items are done."""
        number, told = 0, monotonic()
        for few in done:
            number += few
            if monotonic() - told > _LINE_SECONDS:
                told = monotonic()
                self.tell(event, done=number, of=count)


def _manifest(folder: pipeline.Folder, selected: Selection, settings: Settings) -> Row:
    """The same for the same sources and settings, however often making it was stopped."""
    rows, clips, reasons = selected
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
        "set_aside": dict(
            Counter(
                "copy" if why.startswith("shows the same") else why.split()[0]
                for why in reasons.values()
            )
        ),
        "reasons": dict(reasons),
        "poison": poison,
    }


_HOUR, _MEGABYTE, _GIGABYTE = 3600.0, 1e6, 1e9


def forecast(path: Path, clips: int, nodes: int, cores: int) -> tuple[list[Row], Row]:
    """Extend what `path`, a folder of finished shards, took to `clips` on `nodes` of `cores`.

    Returns for each operator its seconds of processors for a clip that is taken (the survey looks
    at more) and core hours, and for the whole: core hours, hours if all cores are as busy as one
    was, samples, shards, bytes, memory of a node's workers. Raises InputError without such shards.
    """
    folder = pipeline.Folder(path)
    try:
        made = json.loads((path / pipeline.MANIFEST).read_text())
        few = int(made["clips"])
        size = sum(int(shard["bytes"]) for shard in made["shards"])
        shard_clips = int(made["settings"]["shard_clips"])
    except (OSError, ValueError, KeyError) as error:
        why = f"{path} holds no finished shards: gsvc data prepare makes some to plan by"
        raise InputError(why) from error
    costs = pipeline.costs_so_far(folder)
    if not few or not costs:
        raise InputError(f"{path} has no clips to plan by")
    each = {name: row["cpu"] / few for name, row in costs.items()}
    core_hours = sum(each.values()) * clips / _HOUR
    hours, shards = core_hours / (nodes * cores), -(-clips // shard_clips)
    whole = size / few * clips
    worker = WORKER_BYTES + int(max(row["resident"] for row in costs.values()))
    stages: list[Row] = [
        {
            "name": name,
            "cpu_seconds_a_clip": round(cpu, 3),
            "core_hours": round(cpu * clips / _HOUR, 1),
        }
        for name, cpu in each.items()
    ]
    return stages, {
        "clips": clips,
        "core_hours": round(core_hours, 1),
        "hours": round(hours, 2),
        "samples": round(made["samples"] / few * clips),
        "shards": shards,
        "gb": round(whole / _GIGABYTE, 3),
        "mb_a_shard": round(whole / shards / _MEGABYTE, 1),
        "written_mb_a_second": round(whole / (hours * _HOUR) / _MEGABYTE, 1),
        "node_memory_gb": round(cores * worker / _GIGABYTE, 1),
    }
