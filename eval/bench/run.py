"""A run: find out what can be done and what is done already, do the rest, keep every cell as it ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from gsvc.codec.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.datasets.sets import ClipSource, find_clips
from gsvc.eval.bench import machine
from gsvc.eval.bench.named import CodecSpec, make_codec, make_metric
from gsvc.eval.bench.plan import Cell, Job, RunSettings, Source, batches, values_of
from gsvc.eval.bench.pool import Crash, Workers
from gsvc.eval.bench.record import SCHEMA, CellRecord
from gsvc.eval.bench.show import Reporter
from gsvc.eval.bench.store import Damaged, RunFolder
from gsvc.eval.bench.work import Batch, Inspection, Outcome, Reading, failed
from gsvc.eval.codecs.base import Codec


@dataclass(frozen=True)
class Gap:
    """What this run cannot have: a "codec", a "metric" or a "clip" (then with its size), and why."""

    kind: str
    name: str
    reason: str
    size: str = ""

    @property
    def label(self) -> str:
        """For tables: "codec vvenc", "clip city at size 480"."""
        return f"{self.kind} {self.name}" + (f" at size {self.size}" if self.size else "")


@dataclass(frozen=True)
class Plan:
    """All that a run needs: its cells, what cannot be had, and the jobs that are left."""

    settings: RunSettings
    cells: Sequence[Cell]
    gaps: Sequence[Gap]
    jobs: Sequence[Job]
    readings: Mapping[tuple[str, str], Reading]
    codecs: Mapping[str, str] = field(default_factory=dict)
    """Version by name; so for metrics, with unit and direction."""
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def decodes(self) -> int:
        """How many clips are to be decoded."""
        return sum(job.decodes for job in self.jobs)


def make_plan(
    settings: RunSettings, folder: RunFolder, workers: Workers, reporter: Reporter
) -> Plan:
    """Look at codecs, metrics, clips and the folder. Raises ConfigError for names nobody knows."""
    gaps: list[Gap] = []
    kept = folder.settings()
    if kept is not None:
        _check_same_protocol(settings, kept, folder.path)
    codecs = _codecs(settings.codecs, gaps)
    metrics = _metrics(settings.metrics, gaps)
    readings = _readings(settings)
    sources = _sources(readings, workers, gaps)
    for gap in gaps:
        reporter.note(
            "gap", f"{gap.label}: {gap.reason}", what=gap.kind, name=gap.name, size=gap.size
        )
    absent = {gap.name: gap.reason for gap in gaps if gap.kind == "metric"}
    versions = {name: str(about["version"]) for name, about in metrics.items()}
    cells = _cells(sources, codecs, versions, absent)
    return Plan(
        settings,
        cells,
        gaps,
        list(_jobs(cells, folder, reporter)),
        {(reading.source.name, reading.size): reading for reading in readings},
        {codec.name: version for _, codec, version in codecs},
        metrics,
    )


def carry_out(plan: Plan, folder: RunFolder, workers: Workers, reporter: Reporter) -> int:
    """Do what is left, and return how many of the plan's cells failed.

    Raises OutputError when a result cannot be written; what was written before stays.
    """
    began = monotonic()
    folder.write_settings(_run_json(plan, folder.settings()))
    reporter.plan(len(plan.cells), len(plan.cells) - len(plan.jobs), plan.decodes)
    errors = 0
    for job, outcome in _outcomes(plan, workers):
        folder.write(outcome.record, outcome.stream, job.cell.suffix)
        errors += bool(outcome.record.error)
        reporter.cell(job.cell.label, outcome.record, job.decodes)
    values = _run_json(plan, folder.settings())
    if plan.jobs:
        values["seconds"] += monotonic() - began
    folder.write_settings(values)
    return errors


def _outcomes(plan: Plan, workers: Workers) -> Iterator[tuple[Job, Outcome]]:
    """Every job with what came of it. After a crash each cell of the batch gets a worker to itself."""
    groups = list(batches(plan.jobs))
    while groups:
        again: list[list[Job]] = []
        tasks = [_batch(plan, jobs) for jobs in groups]
        for index, result in workers.run(tasks):
            jobs = groups[index]
            if not isinstance(result, Crash):
                yield from zip(jobs, result, strict=True)
            elif len(jobs) > 1:
                again += [[job] for job in jobs]
            else:
                yield jobs[0], failed(jobs[0], result.reason)
        groups = again


def _batch(plan: Plan, jobs: Sequence[Job]) -> Batch:
    source = jobs[0].cell.source
    others = {
        cell.source.clip: cell.source.thumbnails
        for cell in plan.cells
        if cell.source.size == source.size and cell.source.clip != source.clip
    }
    return Batch(plan.readings[source.clip, source.size], tuple(jobs), plan.settings.stride, others)


def _check_same_protocol(settings: RunSettings, kept: Mapping[str, Any], path: Path) -> None:
    """Means over other frames must not stand in one table."""
    for name in ("frames", "stride"):
        if kept[name] != getattr(settings, name):
            raise ConfigError(
                f"{path} was made with --{name} {kept[name] or 0}: "
                "give the same, or choose another folder"
            )


def _codecs(specs: Sequence[CodecSpec], gaps: list[Gap]) -> list[tuple[CodecSpec, Codec, str]]:
    found = []
    for spec in specs:
        try:
            codec = make_codec(spec)
            found.append((spec, codec, codec.version()))
        except (MissingDependencyError, MissingModelError) as error:
            gaps.append(Gap("codec", str(spec), str(error)))
    return found


def _metrics(names: Sequence[str], gaps: list[Gap]) -> dict[str, dict[str, Any]]:
    found = {}
    for name in names:
        try:
            metric = make_metric(name)
            found[name] = {
                "version": metric.version(),
                "unit": metric.unit,
                "higher_is_better": metric.higher_is_better,
                "per_frame": metric.per_frame,
            }
        except (MissingDependencyError, MissingModelError) as error:
            gaps.append(Gap("metric", name, str(error)))
    return found


def _readings(settings: RunSettings) -> list[Reading]:
    sources: dict[str, ClipSource] = {}
    for source in find_clips(settings.clips):
        if sources.setdefault(source.name, source) != source:
            raise ConfigError(f"two clips are called {source.name}: rename one, or run them apart")
    return [
        Reading(source, size, settings.frames)
        for source in sources.values()
        for size in settings.sizes
    ]


def _sources(readings: Sequence[Reading], workers: Workers, gaps: list[Gap]) -> list[Source]:
    found: dict[int, Source] = {}
    for index, result in workers.run([Inspection(reading) for reading in readings]):
        if isinstance(result, Source):
            found[index] = result
            continue
        reading = readings[index]
        why = result.reason if isinstance(result, Crash) else result
        gaps.append(Gap("clip", reading.source.name, why, reading.size))
    return [found[index] for index in sorted(found)]


def _cells(
    sources: Iterable[Source],
    codecs: Sequence[tuple[CodecSpec, Codec, str]],
    metrics: Mapping[str, str],
    absent: Mapping[str, str],
) -> list[Cell]:
    """One a clip, codec and setting; a codec named twice adds its ways to decode."""
    cells: dict[str, Cell] = {}
    for source in sources:
        for spec, codec, version in codecs:
            for point in codec.rate_points():
                ways = tuple(values_of(way) for way in codec.ways_to_decode(point))
                cell = Cell(
                    source=source,
                    codec=spec,
                    codec_name=codec.name,
                    codec_version=version,
                    suffix=codec.suffix,
                    settings=values_of(point),
                    ways=ways,
                    metrics=metrics,
                    gaps=absent,
                )
                other = cells.get(cell.key)
                if other is not None:
                    more = tuple(way for way in ways if way not in other.ways)
                    cell = replace(other, ways=other.ways + more)
                cells[cell.key] = cell
    return list(cells.values())


def _jobs(cells: Iterable[Cell], folder: RunFolder, reporter: Reporter) -> Iterator[Job]:
    for cell in cells:
        try:
            record = folder.read(cell.key)
            if cell.lacks(record):
                yield _job(cell, record, folder)
        except Damaged as error:
            reporter.note(
                "damaged", f"{cell.label}: {error}: it is made again", key=cell.key, cell=cell.label
            )
            yield Job(cell)


def _job(cell: Cell, record: CellRecord | None, folder: RunFolder) -> Job:
    if record is None or not record.bits:
        return Job(cell)
    return Job(cell, record, folder.stream(record))


def _run_json(plan: Plan, kept: Mapping[str, Any] | None) -> dict[str, Any]:
    """What run.json says after this plan: what was there before, and this."""
    before: Mapping[str, Any] = kept or {}
    settings = plan.settings
    asked = {f"codec {spec}" for spec in settings.codecs}
    asked |= {f"metric {name}" for name in settings.metrics}
    asked |= {f"clip {clip} at size {size}" for clip, size in plan.readings}
    gaps = {name: why for name, why in before.get("gaps", {}).items() if name not in asked}
    gaps |= {gap.label: gap.reason for gap in plan.gaps}
    cells = {_identity(cell): cell for cell in before.get("cells", [])}
    cells |= {_identity(cell): cell for cell in map(_cell_entry, plan.cells)}
    return {
        "schema": SCHEMA,
        "clips": _union(before.get("clips", []), [clip for clip, _ in plan.readings]),
        "sizes": _union(before.get("sizes", []), settings.sizes),
        "specs": _union(before.get("specs", []), map(str, settings.codecs)),
        "codecs": {**before.get("codecs", {}), **plan.codecs},
        "metrics": {**before.get("metrics", {}), **plan.metrics},
        "frames": settings.frames,
        "stride": settings.stride,
        "gaps": gaps,
        "versions": machine.versions(),
        "machine": machine.machine(),
        "commit": machine.commit(),
        "seconds": before.get("seconds", 0.0),
        "cells": list(cells.values()),
    }


def _cell_entry(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        "clip": cell.source.clip,
        "size": cell.source.size,
        "codec": cell.codec_name,
        "settings": cell.settings,
    }


def _identity(cell: Mapping[str, Any]) -> str:
    """The same for a cell and the one that replaces it when its source or codec has changed."""
    return repr([cell["clip"], cell["size"], cell["codec"], sorted(cell["settings"].items())])


def _union(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))
