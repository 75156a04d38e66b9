"""From sources to shards: survey, selection, shards, manifest."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from numpy.random import default_rng

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.media.output import explain_failure
from gsvc.decoders.training.preparation.engine import Engine
from gsvc.decoders.training.preparation.items import ClipItem
from gsvc.decoders.training.preparation.manifest import manifest
from gsvc.decoders.training.preparation.operators import clip_operators
from gsvc.decoders.training.preparation.selection import Found, chosen
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.shards import MANIFEST, Folder, WriteShard, write_json
from gsvc.decoders.training.preparation.survey import survey, survey_rows

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
    clips, reasons = chosen(_found(survey_rows(sources, folder), rows), settings)
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


def _found(surveyed: Iterable[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[Found]:
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
