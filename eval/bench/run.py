"""Plans a run, and carries the plan out.

The plan knows which codecs, metrics and clips there are, and which cells are already done. The rest
is then done, and every cell is kept as soon as it ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from gsvc.codec.bitstream.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.codec.weights.extras import machine
from gsvc.datasets.clips.sets import ClipSource, find_clips
from gsvc.eval.baselines.base import Codec
from gsvc.eval.bench.cells import Cell, CellJob, ClipFacts, batches
from gsvc.eval.bench.named import CodecSpec, RunSettings, codec_spec, make_codec, make_metric
from gsvc.eval.bench.show import Reporter
from gsvc.eval.bench.store import SCHEMA, BenchFolder, Damaged, commit, versions
from gsvc.eval.bench.work import Batch, Outcome, Reading, failed
from gsvc.eval.bench.workers import Crash, Workers
from gsvc.eval.metrics.base import Metric
from gsvc.eval.summary.curves import clip_label


@dataclass(frozen=True)
class RunGap:
    """What this run cannot have, and why."""

    kind: str
    """"codec", "metric" or "clip"."""
    name: str
    reason: str
    size: str = ""
    """Of a clip."""

    @property
    def label(self) -> str:
        """For tables: "codec vvenc", "clip city at size 480"."""
        return f"{self.kind} {self.name}" + (f" at size {self.size}" if self.size else "")


@dataclass(frozen=True)
class RunPlan:
    """All that a run needs."""

    settings: RunSettings
    cells: Sequence[Cell]
    gaps: Sequence[RunGap]
    jobs: Sequence[CellJob]
    """What is left to do."""
    readings: Mapping[tuple[str, str], Reading]
    """By the clip's name and size."""
    codecs: Mapping[str, str]
    """Versions by name."""
    codec_facts: Mapping[str, Mapping[str, Any]]
    """The `CodecFacts` by name."""
    metrics: Mapping[str, Mapping[str, Any]]
    """Version, unit, direction and whether there is a value per frame, by name."""

    @property
    def decodes(self) -> int:
        """How many clips are to be decoded."""
        return sum(job.decodes for job in self.jobs)


def make_plan(
    settings: RunSettings, folder: BenchFolder, workers: Workers, reporter: Reporter
) -> RunPlan:
    """Look at codecs, metrics, clips and the folder. Raises ConfigError for unknown names."""
    gaps: list[RunGap] = []
    kept = folder.settings()
    if kept is not None:
        _check_same_protocol(settings, kept, folder.path)
    # Names first: a wrong one is told before versions are asked, which loads networks.
    readings = _readings(settings)
    made = [(spec, make_codec(spec)) for spec in settings.codecs]
    named = {name: make_metric(name) for name in settings.metrics}
    _check_anchors(settings, [codec.name for _, codec in made], kept)
    codecs, metrics = _codecs(made, gaps), _metrics(named, gaps)
    clips = _clips(readings, workers, reporter, gaps)
    for gap in gaps:
        reporter.note(
            "gap", f"{gap.label}: {gap.reason}", what=gap.kind, name=gap.name, size=gap.size
        )
    absent = {gap.name: gap.reason for gap in gaps if gap.kind == "metric"}
    versions = {name: one["version"] for name, one in metrics.items() if name not in absent}
    cells = _cells(clips, codecs, versions, absent)
    return RunPlan(
        settings,
        cells,
        gaps,
        list(_jobs(cells, folder, reporter)),
        {(reading.source.name, reading.size): reading for reading in readings},
        {codec.name: version for _, codec, version in codecs},
        {codec.name: asdict(codec.facts) for _, codec, _ in codecs},
        metrics,
    )


def _check_same_protocol(settings: RunSettings, kept: Mapping[str, Any], path: Path) -> None:
    """Means over different frames must not be in one table."""
    for name in ("frames", "longest", "stride"):
        if kept.get(name) != getattr(settings, name):
            raise ConfigError(
                f"{path} was made with --{name} {kept.get(name) or 0}: "
                "give the same, or choose another folder"
            )


def _check_anchors(
    settings: RunSettings, names: Sequence[str], kept: Mapping[str, Any] | None
) -> None:
    known = [*names, *(kept or {}).get("codecs", ())]
    for anchor in settings.anchors:
        if anchor not in known:
            make_codec(codec_spec(anchor))  # an unknown name is told as such
            raise ConfigError(f"the anchor {anchor!r} is not in the run: add --codec {anchor}")


def _codecs(
    made: Sequence[tuple[CodecSpec, Codec]], gaps: list[RunGap]
) -> list[tuple[CodecSpec, Codec, str]]:
    found = []
    for spec, codec in made:
        try:
            found.append((spec, codec, codec.version()))
        except (MissingDependencyError, MissingModelError) as error:
            gaps.append(RunGap("codec", str(spec), str(error)))
    return found


def _metrics(made: Mapping[str, Metric], gaps: list[RunGap]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, metric in made.items():
        version = ""
        try:
            version = metric.version()
        except (MissingDependencyError, MissingModelError) as error:
            gaps.append(RunGap("metric", name, str(error)))
        found[name] = {
            "version": version,
            "unit": metric.unit,
            "higher_is_better": metric.higher_is_better,
            "per_frame": metric.per_frame,
        }
    return found


def _readings(settings: RunSettings) -> list[Reading]:
    sources: dict[str, ClipSource] = {}
    for source in find_clips(settings.clips):
        if sources.setdefault(source.name, source) != source:
            raise ConfigError(f"two clips are called {source.name}: rename one, or run them apart")
    return [
        Reading(source, size, settings.frames, settings.longest)
        for source in sources.values()
        for size in settings.sizes
    ]


def _clips(
    readings: Sequence[Reading], workers: Workers, reporter: Reporter, gaps: list[RunGap]
) -> list[ClipFacts]:
    found: dict[int, ClipFacts] = {}
    for index, result in workers.run(readings, reporter):
        if isinstance(result, ClipFacts):
            found[index] = result
            continue
        reading = readings[index]
        why = result.reason if isinstance(result, Crash) else result
        gaps.append(RunGap("clip", reading.source.name, why, reading.size))
    return [found[index] for index in sorted(found)]


def _cells(
    clips: Iterable[ClipFacts],
    codecs: Sequence[tuple[CodecSpec, Codec, str]],
    metrics: Mapping[str, str],
    absent: Mapping[str, str],
) -> list[Cell]:
    """One per clip, codec and setting; a codec named twice adds its ways to decode."""
    cells: dict[str, Cell] = {}
    for clip in clips:
        for spec, codec, version in codecs:
            for point in codec.rate_points():
                ways = tuple(dict(way) for way in codec.ways_to_decode(point))
                cell = Cell(
                    clip=clip,
                    codec=spec,
                    codec_name=codec.name,
                    codec_version=version,
                    suffix=codec.suffix,
                    settings=dict(point),
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


def _jobs(cells: Iterable[Cell], folder: BenchFolder, reporter: Reporter) -> Iterator[CellJob]:
    for cell in cells:
        try:
            record = folder.read(cell.key)
            if record is None or not record.bits:
                yield CellJob(cell)
            elif cell.lacks(record):
                yield CellJob(cell, record, folder.stream(record))
        except Damaged as error:
            reporter.note(
                "damaged", f"{cell.label}: {error}: it is made again", key=cell.key, cell=cell.label
            )
            yield CellJob(cell)


def carry_out(plan: RunPlan, folder: BenchFolder, workers: Workers, reporter: Reporter) -> int:
    """Do what is left, and return how many of the plan's cells failed.

    Raises OutputError when a result cannot be written; what was written before stays.
    """
    began = monotonic()
    folder.write_settings(_run_json(plan, folder.settings()))
    reporter.plan(len(plan.cells), plan.jobs)
    errors = 0
    for job, outcome in _outcomes(plan, workers, reporter):
        folder.write(outcome.record, outcome.stream, job.cell.suffix)
        errors += bool(outcome.record.error)
        reporter.cell(job.cell.label, outcome.record)
        if outcome.record.traceback:
            file = folder.traceback_file(outcome.record.key)
            reporter.note("traceback", str(file), key=outcome.record.key)
    values = _run_json(plan, folder.settings())
    if plan.jobs:
        values["seconds"] += monotonic() - began
    folder.write_settings(values)
    return errors


def _outcomes(
    plan: RunPlan, workers: Workers, reporter: Reporter
) -> Iterator[tuple[CellJob, Outcome]]:
    """Every job with its outcome. After a crash the cells of the batch are tried one by one."""
    groups = list(batches(plan.jobs, plan.settings.kept_together))
    while groups:
        again: list[list[CellJob]] = []
        tasks = [_batch(plan, jobs) for jobs in groups]
        for index, result in workers.run(tasks, reporter):
            jobs = groups[index]
            if not isinstance(result, Crash):
                yield from zip(jobs, result, strict=True)
            elif len(jobs) > 1:
                again += [[job] for job in jobs]
            else:
                yield jobs[0], failed(jobs[0], result.reason)
        groups = again


def _batch(plan: RunPlan, jobs: Sequence[CellJob]) -> Batch:
    own = jobs[0].cell.clip
    others = {
        clip.name: clip.thumbnails
        for clip in (cell.clip for cell in plan.cells)
        if clip.size == own.size and clip.name != own.name
    }
    return Batch(plan.readings[own.name, own.size], tuple(jobs), plan.settings.stride, others)


def _run_json(plan: RunPlan, kept: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values of run.json: those it had, updated by this plan."""
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
        # Names of clips and sets as they can be found from any folder.
        "places": _union(
            before.get("places", []),
            (str(Path(n).resolve()) if Path(n).exists() else n for n in settings.clips),
        ),
        "sizes": _union(before.get("sizes", []), settings.sizes),
        "specs": _union(before.get("specs", []), map(str, settings.codecs)),
        "codecs": {**before.get("codecs", {}), **plan.codecs},
        "codec_facts": {**before.get("codec_facts", {}), **plan.codec_facts},
        "anchors": list(settings.anchors) or before.get("anchors", []),
        "metrics": {**before.get("metrics", {}), **plan.metrics},
        "frames": settings.frames,
        "longest": settings.longest,
        "stride": settings.stride,
        "moving": {
            **before.get("moving", {}),
            **{clip_label(one.empty_record()): one.clip.moving for one in plan.cells},
        },
        "gaps": gaps,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "seconds": before.get("seconds", 0.0),
        "cells": list(cells.values()),
    }


def _cell_entry(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        "clip": cell.clip.name,
        "size": cell.clip.size,
        "codec": cell.codec_name,
        "settings": cell.settings,
    }


def _identity(cell: Mapping[str, Any]) -> str:
    """Equal for a cell and the one that replaces it when its clip or codec has changed."""
    return repr([cell["clip"], cell["size"], cell["codec"], sorted(cell["settings"].items())])


def _union(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))
