"""Carries a plan out: does what is left and keeps every cell as it ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from gsvc.codec.machine import machine
from gsvc.eval.bench.batches import batches
from gsvc.eval.bench.cells import Cell, Job
from gsvc.eval.bench.machine import commit, versions
from gsvc.eval.bench.plan import RunPlan
from gsvc.eval.bench.pool import Crash, Workers
from gsvc.eval.bench.record import SCHEMA
from gsvc.eval.bench.show import Reporter
from gsvc.eval.bench.store import RunFolder
from gsvc.eval.bench.work import Batch, Outcome, failed
from gsvc.eval.summary.curves import clip_label


def carry_out(plan: RunPlan, folder: RunFolder, workers: Workers, reporter: Reporter) -> int:
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


def _outcomes(plan: RunPlan, workers: Workers, reporter: Reporter) -> Iterator[tuple[Job, Outcome]]:
    """Every job with its outcome. After a crash the cells of the batch are tried one by one."""
    groups = list(batches(plan.jobs, plan.settings.kept_together))
    while groups:
        again: list[list[Job]] = []
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


def _batch(plan: RunPlan, jobs: Sequence[Job]) -> Batch:
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
        "places": _union(before.get("places", []), map(_place, settings.clips)),
        "sizes": _union(before.get("sizes", []), settings.sizes),
        "specs": _union(before.get("specs", []), map(str, settings.codecs)),
        "codecs": {**before.get("codecs", {}), **plan.codecs},
        "codec_facts": {**before.get("codec_facts", {}), **plan.codec_facts},
        "anchors": list(settings.anchors) or before.get("anchors", []),
        "metrics": {**before.get("metrics", {}), **plan.metrics},
        "frames": settings.frames,
        "stride": settings.stride,
        "moving": {**before.get("moving", {}), **_moving(plan.cells)},
        "gaps": gaps,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "seconds": before.get("seconds", 0.0),
        "cells": list(cells.values()),
    }


def _place(name: str) -> str:
    """The name of a clip or set as it can be found from any folder."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _moving(cells: Iterable[Cell]) -> dict[str, float]:
    return {clip_label(cell.empty_record()): cell.clip.moving for cell in cells}


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
