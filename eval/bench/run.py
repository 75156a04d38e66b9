"""Plans a run, and carries the plan out.

The plan knows which codecs, metrics and clips there are, and which cells are already done. The rest
is then done, and every cell is kept as soon as it ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from gsvc.codec.bitstream import errors
from gsvc.codec.weights.extras import machine
from gsvc.datasets.clips.sets import ClipSource, find_clips
from gsvc.eval.baselines.base import Codec, Settings, self_description
from gsvc.eval.bench import cells as asked, store
from gsvc.eval.bench.progress import Reporter, RunProgress
from gsvc.eval.bench.store import BenchFolder, CellRecord
from gsvc.eval.bench.work import Batch, Outcome, Reading, Trial, failed
from gsvc.eval.bench.workers import Crash, Workers
from gsvc.eval.late_loading import reason
from gsvc.eval.metrics.base import Metric
from gsvc.eval.summary.bd_comparisons import other_anchor
from gsvc.eval.summary.bd_rate import NARROW, RatePoint, below, lower_hull, quality_share
from gsvc.eval.summary.curves import clip_label, distance


class RunGap(NamedTuple):
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


class RunPlan(NamedTuple):
    """All that a run needs."""

    settings: asked.RunSettings
    cells: Sequence[asked.Cell]
    gaps: Sequence[RunGap]
    jobs: Sequence[asked.CellJob]
    """What is left to do."""
    readings: Mapping[tuple[str, str], Reading]
    """By the clip's name and size."""
    codecs: Mapping[str, str]
    """Versions by name."""
    codec_facts: Mapping[str, Mapping[str, Any]]
    """The `CodecFacts` by name."""
    metrics: Mapping[str, Mapping[str, Any]]
    """Version, unit, direction and whether there is a value per frame, by name."""
    kept: Sequence[CellRecord]
    """Of cells that were run before."""

    def progress(self, workers: Workers) -> RunProgress:
        """At the start; cells that were run tell how long others take."""
        count = min(workers.count, len([*asked.batches(self.jobs)])) or 1
        return RunProgress(len(self.cells), self.jobs, self.kept, self.settings.stride, count)


def make_plan(
    settings: asked.RunSettings, folder: BenchFolder, workers: Workers, reporter: Reporter
) -> RunPlan:
    """Look at codecs, metrics, clips and the folder. Raises ConfigError for unknown names."""
    gaps: list[RunGap] = []
    folder.check_own()
    kept = folder.settings()
    records = store.load_run(folder.path).cells if kept else []
    if kept and any(one.scores for record in records for one in record.decodes):
        _check_same_protocol(settings, kept, folder.path)
    # Names first: a wrong one is told before versions are asked, which loads networks.
    readings = _readings(settings)
    made = asked.make_codecs(settings.codecs)
    named = {name: asked.make_metric(name) for name in settings.metrics}
    _check_anchors(settings, [codec.name for _, codec in made], kept)
    reporter.reading()
    told = [(*one, _version(one[1], "codec", str(one[0]), gaps)) for one in made]
    codecs = [(spec, codec, version) for spec, codec, version in told if version is not None]
    metrics = {name: _facts(name, metric, gaps) for name, metric in named.items()}
    clips = _clips(readings, workers, reporter, gaps)
    for gap in gaps:
        reporter.note(
            "gap", f"{gap.label}: {gap.reason}", what=gap.kind, name=gap.name, size=gap.size
        )
    absent = {gap.name: gap.reason for gap in gaps if gap.kind == "metric"}
    versions = {name: one["version"] for name, one in metrics.items() if name not in absent}
    cells = _cells(clips, codecs, versions, absent)
    plan = RunPlan(
        settings,
        cells,
        gaps,
        list(_jobs(cells, folder, reporter)),
        {(reading.source.name, reading.size): reading for reading in readings},
        {codec.name: version for _, codec, version in codecs},
        {codec.name: asdict(codec.facts) for _, codec, _ in codecs},
        metrics,
        records,
    )
    _tell_terms(plan, clips, reporter)
    return plan


def _tell_terms(plan: RunPlan, clips: Iterable[asked.ClipFacts], reporter: Reporter) -> None:
    """What a person might change before hours have passed."""
    grown = [one for one in clips if one.lines < min(one.format.width, one.format.height)]
    if listed := ", ".join(f"{one.name} ({one.lines} lines) to {one.size}" for one in grown):
        reporter.note("enlarged", f"{listed}; --size native leaves clips as they are")
    ran = [(one.codec, one.settings) for one in plan.kept]
    for other in other_anchor([*ran, *((one.codec_name, one.settings) for one in plan.cells)]):
        reporter.note("opponent", other)
    slow = any(_SLOW in job.cell.metrics for job in plan.jobs)
    if slow and plan.settings.stride == asked.RunSettings.stride:
        reporter.note("time", f"{_SLOW} takes most; until the first score, --stride N lowers it")


_SLOW = "st_lpips_vgg"
_PROTOCOL = "condition", "frames", "longest", "stride"
"""Settings that all cells of a run share."""


def _check_same_protocol(settings: asked.RunSettings, kept: Mapping[str, Any], path: Path) -> None:
    """Means over different frames or sizes must not be in one table."""
    had = {name: kept.get(name) for name in _PROTOCOL}
    wrong = {name: value for name, value in had.items() if value != getattr(settings, name)}
    if not set(settings.sizes) <= set(sizes := kept.get("sizes", settings.sizes)):
        wrong["size"] = " --size ".join(sizes)
    for name, value in wrong.items():
        was = f"with --{name} {value or 0}" if value or name == "frames" else f"without --{name}"
        why = f"{path} was made {was}: leave that as it is, or choose another folder"
        raise errors.ConfigError(why)


def _check_anchors(
    settings: asked.RunSettings, names: Sequence[str], kept: Mapping[str, Any] | None
) -> None:
    known = [*names, *(kept or {}).get("codecs", ())]
    for anchor in settings.anchors:
        if anchor not in known:
            name = asked.make_codec(asked.codec_spec(anchor)).name  # an unknown one is told as such
            told = f"goes by its name: --anchor {name}"
            told = told if name in known else f"is not in the run: add --codec {anchor}"
            raise errors.ConfigError(f"the anchor {anchor!r} {told}")


def _version(made: Codec | Metric, kind: str, name: str, gaps: list[RunGap]) -> str | None:
    try:
        return made.version()
    except (errors.MissingDependencyError, errors.MissingModelError) as error:
        gaps.append(RunGap(kind, name, str(error)))
        return None
    except Exception as error:  # of a user's class
        raise errors.ConfigError(f"{name}: version: {reason(error)}") from error


def _facts(name: str, metric: Metric, gaps: list[RunGap]) -> dict[str, Any]:
    return {
        "name": metric.name,
        "version": _version(metric, "metric", name, gaps) or "",
        "unit": metric.unit,
        "higher_is_better": metric.higher_is_better,
        "per_frame": metric.per_frame,
    }


def _readings(settings: asked.RunSettings) -> list[Reading]:
    sources: dict[str, ClipSource] = {}
    for source in find_clips(settings.clips):
        if sources.setdefault(source.name, source) != source:
            why = f"two clips are called {source.name}: rename one, or run them apart"
            raise errors.ConfigError(why)
    return [
        Reading(source, size, settings.frames, settings.longest)
        for source in sources.values()
        for size in settings.sizes
    ]


def _clips(
    readings: Sequence[Reading], workers: Workers, reporter: Reporter, gaps: list[RunGap]
) -> list[asked.ClipFacts]:
    found: dict[int, asked.ClipFacts] = {}
    for index, result in workers.run(readings, reporter):
        if isinstance(result, asked.ClipFacts):
            found[index] = result
            continue
        reading = readings[index]
        why = result.reason if isinstance(result, Crash) else result
        gaps.append(RunGap("clip", reading.source.name, why, reading.size))
    return [found[index] for index in sorted(found)]


def _cells(
    clips: Iterable[asked.ClipFacts],
    codecs: Sequence[tuple[asked.CodecSpec, Codec, str]],
    metrics: Mapping[str, str],
    absent: Mapping[str, str],
) -> list[asked.Cell]:
    """One per clip, codec and setting; a codec named twice adds its ways to decode."""
    cells: dict[str, asked.Cell] = {}
    for clip in clips:
        for spec, codec, version in codecs:
            for point in _rate_points(spec, codec):
                ways = tuple(dict(way) for way in codec.ways_to_decode(point))
                named = spec, codec.name, version, codec.suffix
                cell = asked.Cell(clip, *named, dict(point), ways, metrics, absent)
                other = cells.get(cell.key)
                if other is not None:
                    more = tuple(way for way in ways if way not in other.ways)
                    cell = replace(other, ways=other.ways + more)
                cells[cell.key] = cell
    return list(cells.values())


def _rate_points(spec: asked.CodecSpec, codec: Codec) -> Sequence[Settings]:
    try:
        return codec.rate_points()
    except Exception as error:  # of a user's class
        raise errors.ConfigError(f"{spec}: rate_points: {reason(error)}") from error


def _jobs(
    cells: Iterable[asked.Cell], folder: BenchFolder, reporter: Reporter
) -> Iterator[asked.CellJob]:
    for cell in cells:
        try:
            record = folder.read(cell.key)
            if record is None or not record.bits:
                yield asked.CellJob(cell)
            elif cell.lacks(record):
                yield asked.CellJob(cell, record, folder.stream(record))
        except store.Damaged as error:
            reporter.note(
                "damaged", f"{cell.label}: {error}: it is made again", key=cell.key, cell=cell.label
            )
            yield asked.CellJob(cell)


def make_run(
    settings: asked.RunSettings,
    folder: BenchFolder,
    pool: AbstractContextManager[Workers],
    reporter: Reporter,
) -> tuple[RunPlan, int]:
    """Plan a run and do what is left of it: the plan, and how many of its cells failed.

    Raises GsvcError where nothing can be run, and as `carry_out`.
    """
    with folder.locked(), pool as workers:
        plan = make_plan(settings, folder, workers, reporter)
        lacks = {gap.name for gap in plan.gaps if gap.kind == "metric"}
        if not plan.cells or lacks.issuperset(settings.metrics):
            what = "measured" if plan.cells else "run"
            raise errors.GsvcError(f"nothing can be {what}: see the gaps above")
        try_own(plan, workers, reporter)
        folder.make()
        return plan, carry_out(plan, folder, workers, reporter)


def try_own(plan: RunPlan, workers: Workers, reporter: Reporter) -> None:
    """Raise ConfigError for a codec of the user's that codes nothing: before hours, not after."""
    new: dict[asked.CodecSpec, list[asked.CellJob]] = {}
    for job in plan.jobs:
        if job.cell.codec.is_own:
            new.setdefault(job.cell.codec, []).append(job)
    left = {job.cell.key for job in plan.jobs if job.stream is None}
    for known in {cell.codec for cell in plan.cells if cell.key not in left}:
        new.pop(known, None)
    first = [[job for job in jobs if job.cell.clip == jobs[0].cell.clip] for jobs in new.values()]
    trials = [Trial(_batch(plan, jobs)) for jobs in first]
    for index, why in workers.run(trials, reporter):
        text = why.reason if isinstance(why, Crash) else why
        raise errors.ConfigError(f"{first[index][0].cell.codec} codes nothing: {text}")


def carry_out(plan: RunPlan, folder: BenchFolder, workers: Workers, reporter: Reporter) -> int:
    """Do what is left, and return how many of the plan's cells failed.

    Raises OutputError when a result cannot be written; what was written before stays.
    """
    began = monotonic()
    pace = plan.progress(workers)
    folder.write_settings(values := _run_json(plan, folder.settings()))
    reporter.plan(pace, plan.jobs)
    shares = _Shares(values)
    for record in plan.kept:
        shares.add(record, reporter)
    failures = 0
    for job, outcome in _outcomes(plan, workers, reporter):
        folder.write(outcome.record, outcome.stream, job.cell.suffix)
        shares.add(outcome.record, reporter)
        if outcome.stream and job.cell.codec.is_own:
            _tell_rate(job.cell, outcome.stream, outcome.record.bits // 8, reporter)
        if not outcome.done:
            continue
        failures += bool(outcome.record.error)
        reporter.cell(job.cell.label, outcome.record)
        if outcome.record.traceback:
            file = folder.traceback_file(outcome.record.key)
            reporter.note("traceback", str(file), key=outcome.record.key)
    values = _run_json(plan, folder.settings())
    if plan.jobs:
        values["seconds"] += monotonic() - began
    folder.write_settings(values)
    return failures


def _tell_rate(cell: asked.Cell, stream: bytes, counted: int, reporter: Reporter) -> None:
    """What a stream holds beside video; `counted`: bytes that count."""
    told = [self_description(stream)]
    if (beside := len(stream) - counted) > 0:
        told.append(f"{beside} of {len(stream)} bytes are its container's, which do not count")
    for text in filter(None, told):
        reporter.note("rate", f"{cell.label}: {text}", key=cell.key, bytes=counted)


class _Shares:
    """Finds codecs whose qualities share little as soon as one clip has them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """`values`: of run.json."""
        facts = values["codec_facts"]
        usual = [name for name, one in facts.items() if one["is_anchor"]]
        self._anchors = values["anchors"] or usual
        self._metrics = {name: one["higher_is_better"] for name, one in values["metrics"].items()}
        self._told: set[tuple[str, str]] = set()
        self._clips: dict[tuple[str, str], dict[str, dict[str, CellRecord | None]]] = {}
        for cell in values["cells"]:
            codecs = self._clips.setdefault((cell["clip"], cell["size"]), {})
            codecs.setdefault(cell["codec"], {})[cell["key"]] = None

    def add(self, record: CellRecord, reporter: Reporter) -> None:
        """Tell of each pair of codecs once."""
        codecs = self._clips[record.clip, record.size]
        codecs[record.codec][record.key] = record
        pairs = {*product(self._anchors, set(codecs) - {*self._anchors})}
        for (anchor, test), metric in product(pairs, self._metrics):
            if (anchor, test) in self._told:
                continue
            each = ([*codecs.get(name, {}).values()] for name in (anchor, test))
            hulls = [_hull(one, metric, self._metrics[metric]) for one in each]
            if min(map(len, hulls)) > 1 and (share := quality_share(*hulls)) < NARROW:
                self._told.add((anchor, test))
                part = f"{below(max(0.0, share))} % of their range of {metric}"
                why = f"{test} and {anchor} share {part} on {clip_label(record)}"
                todo = "BD-rates will say little: add rates nearer to each other's quality"
                reporter.note("overlap", f"{why}, so {todo} (usual rates: gsvc bench list codecs)")


def _hull(records: Sequence[CellRecord | None], metric: str, rises: bool) -> list[RatePoint]:
    """Of cells' first ways to decode; empty until all have the metric, which `rises` or falls."""
    points = list[RatePoint]()
    for record in records:
        score = record and record.decodes and record.decodes[0].scores.get(metric)
        if not record or not score or score.mean is None:
            return []
        points.append((record.bpp, distance(score.mean, rises)))
    return lower_hull(points)


def _outcomes(
    plan: RunPlan, workers: Workers, reporter: Reporter
) -> Iterator[tuple[asked.CellJob, Outcome]]:
    """Every job with its outcomes. After a crash the cells of the batch go on one by one."""
    groups = list(asked.batches(plan.jobs))
    while groups:
        tasks = [_batch(plan, jobs) for jobs in groups]
        left = [{job.cell.key: job for job in jobs} for jobs in groups]
        again: list[list[asked.CellJob]] = []
        for index, result in workers.run(tasks, reporter):
            jobs = left[index]
            if isinstance(result, Outcome):
                job = jobs.pop(result.record.key)
                yield job, result
                if not result.done:
                    stream = result.stream or job.stream
                    jobs[job.cell.key] = replace(job, record=result.record, stream=stream)
            elif len(groups[index]) > 1:
                again += [[job] for job in jobs.values()]
            else:
                yield from ((job, failed(job, result.reason)) for job in jobs.values())
        groups = again


def _batch(plan: RunPlan, jobs: Sequence[asked.CellJob]) -> Batch:
    own = jobs[0].cell.clip
    others = {
        clip.name: clip.thumbnails
        for clip in (cell.clip for cell in plan.cells)
        if clip.size == own.size and clip.name != own.name
    }
    return Batch(plan.readings[own.name, own.size], tuple(jobs), plan.settings.stride, others)


_CELL_ENTRY = "key", "clip", "size", "codec", "settings"


def _run_json(plan: RunPlan, kept: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values of run.json: those it had, updated by this plan."""
    before: Mapping[str, Any] = kept or {}
    settings = plan.settings
    wanted = {f"codec {spec}" for spec in settings.codecs}
    wanted |= {f"metric {name}" for name in settings.metrics}
    wanted |= {f"clip {clip} at size {size}" for clip, size in plan.readings}
    gaps = {name: why for name, why in before.get("gaps", {}).items() if name not in wanted}
    gaps |= {gap.label: gap.reason for gap in plan.gaps}
    cells = {_identity(cell): cell for cell in before.get("cells", [])}
    records = [cell.empty_record() for cell in plan.cells]
    entries = ({name: getattr(one, name) for name in _CELL_ENTRY} for one in records)
    cells |= {_identity(entry): entry for entry in entries}
    lists: dict[str, Iterable[str]] = {
        "clips": [clip for clip, _ in plan.readings],
        # Names of clips and sets as they can be found from any folder.
        "places": (str(Path(n).resolve()) if Path(n).exists() else n for n in settings.clips),
        "sizes": settings.sizes,
        "specs": map(str, settings.codecs),
    }
    tables: dict[str, Mapping[str, Any]] = {
        "codecs": plan.codecs,
        "codec_facts": plan.codec_facts,
        "metrics": plan.metrics,
        "moving": {clip_label(one.empty_record()): one.clip.moving for one in plan.cells},
    }
    return {
        "schema": store.SCHEMA,
        **{name: [*dict.fromkeys([*before.get(name, ()), *new])] for name, new in lists.items()},
        **{name: {**before.get(name, {}), **new} for name, new in tables.items()},
        "anchors": list(settings.anchors) or before.get("anchors", []),
        **{name: getattr(settings, name) for name in _PROTOCOL},
        "gaps": gaps,
        "versions": store.versions(),
        "machine": machine(),
        "commit": store.commit(),
        "seconds": before.get("seconds", 0.0),
        "cells": list(cells.values()),
    }


def _identity(cell: Mapping[str, Any]) -> str:
    """Equal for a cell and the one that replaces it when its clip or codec has changed."""
    return repr([cell["clip"], cell["size"], cell["codec"], sorted(cell["settings"].items())])
