"""Plans a run, carries the plan out, and says how far it is, as lines or as JSON objects.

The plan knows which codecs, metrics and clips there are, and which cells are already done. The rest
is then done, and every cell is kept as soon as it ends.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple, TextIO

from gsvc.codec.api.reports import JsonLines, shown_time, write_over
from gsvc.codec.bitstream import errors
from gsvc.codec.weights.extras import machine
from gsvc.datasets.clips.sets import ClipSource, find_clips
from gsvc.eval.baselines.base import Codec, Settings
from gsvc.eval.bench import cells as asked, store
from gsvc.eval.bench.store import BenchFolder, CellRecord
from gsvc.eval.bench.work import Batch, Outcome, Reading, Trial, failed
from gsvc.eval.bench.workers import DECODE, ENCODE, SCORE, CellStep, Crash, Workers
from gsvc.eval.late_loading import reason
from gsvc.eval.metrics.base import Metric
from gsvc.eval.summary.curves import clip_label

_Kind = tuple[str, str]
"""`CellStep.kind` and `CellStep.name`: such steps take about as long as each other."""


class RunProgress:
    """Knows the steps that are ahead, and what steps of each kind have taken so far."""

    def __init__(
        self,
        cells: int = 0,
        jobs: Sequence[asked.CellJob] = (),
        records: Iterable[CellRecord] = (),
        stride: int = 1,
        workers: int = 1,
    ) -> None:
        """`cells`: of the run; `jobs`: those not done; `records`: what others have taken before."""
        self._ahead = {job.cell.key: Counter(steps_of(job)) for job in jobs}
        self._labels = {job.cell.key: job.cell.label for job in jobs}
        self.cells = cells
        self.resumed = self.done = cells - len(self._ahead)
        self._taken: defaultdict[_Kind, list[float]] = defaultdict(list)
        self._now: dict[int, tuple[CellStep, float]] = {}
        self._workers = workers
        self._usual: defaultdict[_Kind, list[float]] = defaultdict(list)
        for job in jobs:
            form = job.cell.clip.format
            coded = form.width * form.height * form.frame_count / 1e6
            for kind, name in steps_of(job):
                pixels = coded / stride if kind == SCORE and name != "cvvdp" else coded
                usual = _USUAL.get(f"{kind} {name}", _USUAL[kind])
                self._usual[kind, name].append(0.2 + usual * pixels)
        for cell in (one for one in records if one.bits):
            self._taken[ENCODE, cell.codec].append(cell.encode_seconds)
            for one in cell.decodes:
                self._taken[DECODE, cell.codec].append(one.seconds)
                for name, scores in one.scores.items():
                    self._taken[SCORE, name].append(scores.seconds)

    def step(self, worker: int, step: CellStep) -> None:
        """A worker begins a step, or has done it; `worker` tells it from the others."""
        if step.seconds is None:
            self._now[worker] = step, monotonic()
            return
        self._now.pop(worker, None)
        for key in step.cells:
            self._ahead[key][step.kind, step.name] -= 1
            self._taken[step.kind, step.name].append(step.seconds / len(step.cells))

    def end(self, key: str) -> None:
        """A cell has ended; steps that it left out are not ahead any more."""
        self.done += 1
        self._ahead.pop(key, None)
        self._now = {w: one for w, one in self._now.items() if key not in one[0].cells}

    def left(self) -> tuple[float, bool]:
        """Seconds: the steps ahead, each as long as those like it; whether all such are known.

        One that takes longer is about to end. Codecs are alike until measured, metrics never are.
        """
        ahead = sum((+counter for counter in self._ahead.values()), Counter[_Kind]())
        seconds, is_known = 0.0, True
        for kind, count in ahead.items():
            like = [s for one, many in self._taken.items() if one[0] == kind[0] for s in many]
            taken = self._taken.get(kind) or (like if kind[0] != SCORE else [])
            is_known &= bool(taken)
            each = fmean(taken or self._usual[kind])
            spent = [
                min(monotonic() - began, each * len(step.cells))
                for step, began in self._now.values()
                if (step.kind, step.name) == kind
            ]
            seconds += count * each - sum(spent)
        return seconds / self._workers, is_known

    def slowest(self) -> str:
        """What a worker has been at for longest: "gsvc: encode, 95 s, bikes 288 gsvc level=3"."""
        if not self._now:
            return ""
        step, began = min(self._now.values(), key=lambda one: one[1])
        more = f" and {len(step.cells) - 1} more" if len(step.cells) > 1 else ""
        label = self._labels[step.cells[0]]
        return f"{step.kind} {step.name} {monotonic() - began:.0f} s: {label}{more}"

    def text(self) -> str:
        """ "cell 12/40, about 12:05 left"."""
        return f"cell {self.done}/{self.cells}, {time_text(*self.left())} left"


_USUAL = {ENCODE: 0.5, DECODE: 0.2, SCORE: 0.8, "encode libaom": 4.4, "encode vvenc": 1.2}
_USUAL |= dict.fromkeys(("decode svtav1+rife", "decode x265+rife", "decode svtav1+sr"), 3.2)
_USUAL |= {"score st_lpips_vgg": 11.0, "score st_lpips_alex": 3.0, "score cvvdp": 0.2}
"""Seconds a megapixel, of metrics of frames a scored one, on two cores; each step has .2 more."""


def time_text(seconds: float, is_known: bool) -> str:
    """ "about 12:05"; where a step was not measured yet, "very roughly 12:05"."""
    return f"{'about' if is_known else 'very roughly'} {shown_time(round(seconds))}"


def steps_of(job: asked.CellJob) -> Iterable[_Kind]:
    """The steps that a job needs."""
    cell = job.cell
    if job.stream is None:
        yield ENCODE, cell.codec_name
    for _, metrics in cell.lacking_ways(job.record or cell.empty_record()):
        yield DECODE, cell.codec_name
        yield from ((SCORE, metric) for metric in metrics)


_SLOW = "st_lpips_vgg"
_WIDEST = 160  # characters of a line on a terminal
_QUIET_SECONDS = 10.0  # between lines of progress where there is no terminal


class TextReporter:
    """Lines on standard error; one that is written over where that is a terminal."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._line = self._file.isatty()
        self._pace = RunProgress()
        self._shown = monotonic()

    def note(self, kind: str, text: str, **values: object) -> None:
        self.close()
        print(f"gsvc: {kind}: {text}", file=self._file, flush=True)

    def reading(self) -> None:
        print("reading clips and versions", file=self._file, flush=True)

    def plan(self, pace: RunProgress, jobs: Sequence[asked.CellJob]) -> None:
        self._pace, cells = pace, pace.cells
        coded = sum(job.record is not None for job in jobs)
        text = f"{cells} cell{'s' * (cells != 1)}: {self._pace.resumed} done, "
        text += f"{coded} to complete (streams and scores are kept), " if coded else ""
        text += f"{len(jobs) - coded} to code" + (f", {time_text(*pace.left())}" if jobs else "")
        print(text, file=self._file, flush=True)

    def step(self, worker: int, step: CellStep) -> None:
        self._pace.step(worker, step)
        self.tick()

    def tick(self) -> None:
        if not self._pace.cells:
            return
        if self._line:
            write_over(self._file, self._text()[:_WIDEST])
        elif monotonic() - self._shown < _QUIET_SECONDS:
            return
        else:
            print(self._text(), file=self._file, flush=True)
        self._shown = monotonic()

    def cell(self, label: str, record: CellRecord) -> None:
        self._pace.end(record.key)
        if record.error:
            self.note("failed", f"{label}: {record.error}")
        if self._pace.done == self._pace.cells and not self._line:
            print(self._pace.text(), file=self._file, flush=True)
        self.tick()

    def close(self) -> None:
        if self._line:
            write_over(self._file)

    def _text(self) -> str:
        return ", ".join(part for part in (self._pace.text(), self._pace.slowest()) if part)


class JsonReporter:
    """One JSON object a line on standard output; "type" tells what it is."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._pace = RunProgress()

    def note(self, kind: str, text: str, **values: object) -> None:
        self._lines.put(kind, message=text, **values)

    def reading(self) -> None:
        pass

    tick = close = reading

    def plan(self, pace: RunProgress, jobs: Sequence[asked.CellJob]) -> None:
        self._pace, decodes = pace, sum(job.decodes for job in jobs)
        values = {"resumed": pace.resumed, "decodes": decodes, "left": pace.left()[0]}
        self._lines.put("plan", cells=pace.cells, **values)

    def step(self, worker: int, step: CellStep) -> None:
        self._pace.step(worker, step)
        if step.seconds is not None:
            values = {"step": step.kind, "name": step.name, "cells": len(step.cells)}
            self._lines.put("step", **values, seconds=step.seconds, left=self._pace.left()[0])

    def cell(self, label: str, record: CellRecord) -> None:
        self._pace.end(record.key)
        names = ("key", "clip", "size", "codec", "settings", "bits", "bpp", "encode_seconds")
        values = {name: getattr(record, name) for name in names}
        values["error"] = record.error or None
        values["decodes"] = [
            {"way": d.way, "seconds": d.seconds, "scores": {n: s.mean for n, s in d.scores.items()}}
            for d in record.decodes
        ]
        far = {"done": self._pace.done, "cells": self._pace.cells, "left": self._pace.left()[0]}
        self._lines.put("cell", **values, **far)


Reporter = TextReporter | JsonReporter
"""Is told what happens.

`note`: what a person must know: a "gap", a "damaged" cell, a "failed" one.
`reading`: the names asked for are known; clips and versions are read.
`plan`: what is to do; `jobs` are those cells that are not complete.
`step`: a worker, told by a number, begins a step or has done it.
`tick`: time goes on.
`cell`: a cell was worked on.
`close`: nothing more is said.
"""


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

    def progress(self, folder: BenchFolder, workers: Workers) -> RunProgress:
        """At the start; cells of the folder tell how long others take."""
        records = store.load_run(folder.path).cells if folder.settings() else ()
        count = min(workers.count, len([*asked.batches(self.jobs)])) or 1
        return RunProgress(len(self.cells), self.jobs, records, self.settings.stride, count)


def make_plan(
    settings: asked.RunSettings, folder: BenchFolder, workers: Workers, reporter: Reporter
) -> RunPlan:
    """Look at codecs, metrics, clips and the folder. Raises ConfigError for unknown names."""
    gaps: list[RunGap] = []
    folder.check_own()
    if (kept := folder.settings()) is not None:
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
    jobs = list(_jobs(cells, folder, reporter))
    if settings.stride == asked.RunSettings.stride and any(_SLOW in j.cell.metrics for j in jobs):
        reporter.note("time", f"{_SLOW} takes most of it; a new run with --stride N scores less")
    return RunPlan(
        settings,
        cells,
        gaps,
        jobs,
        {(reading.source.name, reading.size): reading for reading in readings},
        {codec.name: version for _, codec, version in codecs},
        {codec.name: asdict(codec.facts) for _, codec, _ in codecs},
        metrics,
    )


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
        if ":" in job.cell.codec.name:
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
    pace = plan.progress(folder, workers)
    folder.write_settings(_run_json(plan, folder.settings()))
    reporter.plan(pace, plan.jobs)
    failures = 0
    for job, outcome in _outcomes(plan, workers, reporter):
        folder.write(outcome.record, outcome.stream, job.cell.suffix)
        if (size := len(outcome.stream or b"")) > (counted := outcome.record.bits // 8):
            text = f"{size - counted} of {size} bytes are its container's: they do not count"
            reporter.note("rate", f"{job.cell.label}: {text}", key=job.cell.key, bytes=counted)
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
