"""`gsvc bench run`: what is asked for becomes a plan, its cells are run, and tables are shown."""

import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.eval import baselines, layout, metrics
from gsvc.eval.baselines.base import Option
from gsvc.eval.bench import progress, run as bench
from gsvc.eval.bench.cells import CONDITIONS, CodecSpec, RunSettings, codec_spec, under
from gsvc.eval.bench.store import BenchFolder
from gsvc.eval.bench.workers import Pool, RayWorkers, Workers, ray_cluster
from gsvc.eval.summary.rate_tables import NONE, headline_gaps, protocol
from gsvc.eval.summary.summarise import ADDING, reasons_without_rate, slowest
from gsvc.eval.summary.write import tables, write_summary

_INTERRUPTED = 130
_FIXED = "At fixed rates"
_MAIN_TABLES = "Headline", "Slideshow test", "What is missing", "BD-rate pooled", "Points", _FIXED


def run(options: Namespace) -> int:
    """Run what is not done yet, or list it."""
    folder = BenchFolder(Path(options.out))
    options.clips = [*options.clips, *(options.more_clips or [])]
    by_line = options.json and progress.JsonReporter(JsonLines(sys.stdout))
    reporter: progress.Reporter = by_line or progress.TextReporter()
    if (kept := folder.settings()) is None:
        options.condition = options.condition or "join"
    elif taken := _take(options, kept):
        reporter.note("settings", f"as in this run: {'; '.join(taken)}")
    action = _list_cells if options.dry_run else _carry_out
    return action(options, _settings(options), folder, reporter)


_OF_RUN = {"clips": "places", "codec": "specs", "metric": "metrics", "size": "sizes"}
_OF_RUN |= {name: name for name in ("condition", "frames", "longest", "stride")}
"""Options by what run.json calls them."""


def _take(options: Namespace, kept: Mapping[str, Any]) -> list[str]:
    """Set the options that were left out as the run has them; returns them in words."""
    if options.levels or options.steps or options.seeds:
        options.codec = options.codec or ["gsvc"]
    taken = []
    for option, name in _OF_RUN.items():
        value = kept.get(name) or (0 if option == "frames" else None)
        if value is not None and getattr(options, option) in (None, []):
            names = [*value] if isinstance(value, list | dict) else None
            setattr(options, option, names or value)
            taken.append(f"{option} {', '.join(names) if names else value or 'all'}")
    return taken


def _settings(options: Namespace) -> RunSettings:
    condition = CONDITIONS[options.condition or "join"]
    codecs = [under(condition, one) if options.condition else one for one in _codecs(options)]
    frames = condition.frames if options.frames is None else options.frames or None
    longest = condition.longest if options.longest is None else options.longest or None
    return RunSettings(
        clips=tuple(dict.fromkeys(options.clips or ["packaged"])),
        codecs=tuple(codecs),
        metrics=tuple(dict.fromkeys(options.metric or metrics.DEFAULT_METRICS)),
        sizes=tuple(dict.fromkeys(options.size or RunSettings.sizes)),
        anchors=tuple(dict.fromkeys(options.anchor or ())),
        condition=options.condition,
        frames=frames,
        longest=longest,
        stride=RunSettings.stride if options.stride is None else options.stride,
    )


def _codecs(options: Namespace) -> Iterator[CodecSpec]:
    """The codecs asked for; --levels, --steps and --seeds are options of gsvc."""
    extra: dict[str, Option] = {
        option: tuple(values)
        for option, name in (("level", "levels"), ("steps", "steps"), ("seed", "seeds"))
        if (values := getattr(options, name))
    }
    specs = [codec_spec(text) for text in dict.fromkeys(options.codec or baselines.DEFAULT_CODECS)]
    if extra and all(spec.name != "gsvc" for spec in specs):
        raise ConfigError("--levels, --steps and --seeds are of gsvc: add --codec gsvc")
    for spec in specs:
        if spec.name != "gsvc" or not extra:
            yield spec
            continue
        if twice := set(extra) & {name for name, _ in spec.options}:
            raise ConfigError(f"{min(twice)} is given twice: with --codec and by itself")
        yield replace(spec, options=(*spec.options, *extra.items()))


@contextmanager
def _workers(options: Namespace) -> Iterator[Workers]:
    if options.jobs < 0:
        raise ConfigError(f"jobs {options.jobs}: 0 for one a core, or a number of workers")
    if options.ray is not None:
        with ray_cluster(options.ray, options.jobs) as ray:
            yield RayWorkers(ray)
    else:
        with closing(Pool(options.jobs)) as pool:
            yield pool


def _carry_out(
    options: Namespace, settings: RunSettings, folder: BenchFolder, reporter: progress.Reporter
) -> int:
    """Run what is left, then write the summary and show the main tables. Returns 1 when a cell
    failed or a clip could not be read. A missing package is a gap in tables."""
    try:
        plan, errors = bench.make_run(settings, folder, _workers(options), reporter)
    except (KeyboardInterrupt, SystemExit) as error:  # SystemExit: terminated
        streams = len([*(folder.path / "streams").glob("[!.]*")])
        kept = f"{folder.path} keeps all scores and streams ({streams}): the same command resumes"
        code = getattr(error, "code", _INTERRUPTED)
        names = {_INTERRUPTED - signal.SIGINT + one: one.name for one in signal.Signals}
        by = names.get(code, f"sys.exit({code!r}) of a codec or metric")
        kept = kept if folder.settings() else "no cell was begun: give all options again"
        reporter.note("interrupted", f"by {by}; {kept}")
        if isinstance(error, SystemExit):
            raise
        return _INTERRUPTED
    finally:
        reporter.close()
    _show_summary(options, folder.path, errors, len(plan.cells))
    return int(bool(errors) or any(gap.kind == "clip" for gap in plan.gaps))


def _list_cells(
    options: Namespace, settings: RunSettings, folder: BenchFolder, reporter: progress.Reporter
) -> int:
    with _workers(options) as workers:
        plan = bench.make_plan(settings, folder, workers, reporter)
        bench.try_own(plan, workers, reporter)
        left_seconds = plan.progress(workers).left()
    left, lines = {job.cell.key: job for job in plan.jobs}, JsonLines(sys.stdout)
    encodes, decodes = sum(job.stream is None for job in plan.jobs), 0
    for cell in plan.cells:
        job = left.get(cell.key)
        state = "done" if job is None else "to do" if job.stream is None else "to complete"
        decodes += (count := job.decodes if job else 0)
        if options.json:
            lines.put("cell", state=state, key=cell.key, label=cell.label, decodes=count)
        else:
            print(f"{state:<12}{count} decodes  {cell.label}")
    cells, done = len(plan.cells), len(plan.cells) - len(left)
    if options.json:
        values = {"encodes": encodes, "decodes": decodes, "seconds": left_seconds[0]}
        lines.put("done", cells=cells, left=len(left), **values)
        return 0
    told = f", {progress.time_text(*left_seconds)}" if left else ""
    print(f"cells: {cells}, {done} done; left: {encodes} encodes, {decodes} decodes{told}")
    return 0


def _show_summary(options: Namespace, folder: Path, errors: int, cells: int) -> None:
    summary = write_summary(folder)
    parts = [protocol(summary)]
    for table in tables(summary):
        is_whole, gain = not table.title.startswith(_FIXED), f" against {summary.headline.anchor}"
        rows = [
            row
            for row in table.rows
            if is_whole or (row[0].endswith(gain) and {*row[1:]} != {NONE})
        ]
        if rows and table.title.startswith(_MAIN_TABLES):
            parts += [table.title, layout.markdown(table.header, rows)]
    slow = [f"Slowest: {', '.join(slowest(summary.durations))}"] if summary.durations else []
    parts += [*reasons_without_rate(summary), *slow, *headline_gaps(summary)]
    if summary.missing:
        lacks = "; ".join(summary.missing)
        parts.append(f"Missing: {lacks}. {ADDING.format(folder)}.")
    parts.append(f"All tables: {folder / 'summary.md'}")
    if options.json:
        done = {"run": str(folder), "cells": cells, "failed": errors}
        JsonLines(sys.stdout).put("done", **done, headline=asdict(summary.headline))
    else:
        print("\n\n".join(parts))
