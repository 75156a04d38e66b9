"""`gsvc bench run`, `plot`, `report`, `sheets` and `compare`: from parsed options to the exit code."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gsvc.codec.command.progress import JsonLines
from gsvc.codec.errors import ConfigError, GsvcError
from gsvc.eval.bench.named import CodecSpec, codec_spec
from gsvc.eval.bench.plan import RunSettings
from gsvc.eval.bench.pool import Workers, local_pool
from gsvc.eval.bench.ray_run import ray_workers
from gsvc.eval.bench.run import Plan, carry_out, make_plan
from gsvc.eval.bench.show import JsonReporter, Reporter, TextReporter
from gsvc.eval.bench.store import RunFolder
from gsvc.eval.codecs import DEFAULT_CODECS
from gsvc.eval.codecs.options import Option
from gsvc.eval.metrics import DEFAULT_METRICS

_INTERRUPTED = 130
_MAIN_TABLES = "What is missing", "BD-rate pooled over clips"


def run(options: Namespace) -> int:
    """Run what is not done yet, then write the summary and show the main table.

    1 when a cell failed or a clip could not be read, 0 otherwise: what is not installed is a gap.
    """
    settings = _settings(options)
    folder = RunFolder(Path(options.out))
    reporter: Reporter = JsonReporter(JsonLines(sys.stdout)) if options.json else TextReporter()
    if options.dry_run:
        with _workers(options) as workers:
            _show_plan(options, make_plan(settings, folder, workers, reporter))
        return 0
    try:
        with folder.locked(), _workers(options) as workers:
            folder.make()
            plan = make_plan(settings, folder, workers, reporter)
            if not plan.cells:
                raise GsvcError("nothing can be run: see the gaps above")
            errors = carry_out(plan, folder, workers, reporter)
    except KeyboardInterrupt:
        reporter.note("interrupted", f"{folder.path} keeps what is done: the same command resumes")
        return _INTERRUPTED
    finally:
        reporter.close()
    _write_summary(options, folder.path, errors, len(plan.cells))
    unread = any(gap.kind == "clip" for gap in plan.gaps)
    return int(bool(errors) or unread)


def plot(options: Namespace) -> int:
    """Draw a run's plots."""
    from gsvc.eval.report import write_plots
    from gsvc.eval.summary import write_summary

    write_summary(Path(options.run))
    write_plots(Path(options.run))
    _tell(options, Path(options.run) / "plots")
    return 0


def report(options: Namespace) -> int:
    """Write a run's page."""
    from gsvc.eval.report import write_report
    from gsvc.eval.summary import write_summary

    write_summary(Path(options.run))
    write_report(Path(options.run))
    _tell(options, Path(options.run) / "report.html")
    return 0


def sheets(options: Namespace) -> int:
    """Draw a run's before/after sheets."""
    from gsvc.eval.report import write_sheets

    write_sheets(Path(options.run))
    _tell(options, Path(options.run) / "sheets")
    return 0


def compare(options: Namespace) -> int:
    """Say how one run differs from another."""
    from gsvc.eval.report import compare_runs

    text = compare_runs(Path(options.run_a), Path(options.run_b))
    if options.json:
        JsonLines(sys.stdout).put("done", text=text)
    else:
        print(text)
    return 0


ACTIONS: dict[str, Callable[[Namespace], int]] = {
    "run": run,
    "plot": plot,
    "report": report,
    "sheets": sheets,
    "compare": compare,
}


def _settings(options: Namespace) -> RunSettings:
    return RunSettings(
        clips=tuple([*options.clips, *(options.more_clips or [])] or ["packaged"]),
        codecs=tuple(_codecs(options)),
        metrics=tuple(dict.fromkeys(options.metric or DEFAULT_METRICS)),
        sizes=tuple(dict.fromkeys(options.size or ["288"])),
        frames=options.frames or None,
        stride=options.stride,
    )


def _codecs(options: Namespace) -> Iterator[CodecSpec]:
    """The codecs asked for; --levels, --steps and --seeds are options of gsvc."""
    extra: dict[str, Option] = {
        option: tuple(values)
        for option, name in (("level", "levels"), ("steps", "steps"), ("seed", "seeds"))
        if (values := getattr(options, name))
    }
    specs = [codec_spec(text) for text in dict.fromkeys(options.codec or DEFAULT_CODECS)]
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
        with ray_workers(options.ray, options.jobs) as cluster:
            yield cluster
    else:
        with local_pool(options.jobs) as pool:
            yield pool


def _show_plan(options: Namespace, plan: Plan) -> None:
    left = {job.cell.key: job for job in plan.jobs}
    rows = []
    for cell in plan.cells:
        job = left.get(cell.key)
        state = "done" if job is None else "to do" if job.stream is None else "to complete"
        rows.append((state, cell, job.decodes if job else 0))
    encodes = sum(job.stream is None for job in plan.jobs)
    if options.json:
        lines = JsonLines(sys.stdout)
        for state, cell, decodes in rows:
            lines.put("cell", state=state, key=cell.key, label=cell.label, decodes=decodes)
        lines.put("done", cells=len(rows), left=len(left), encodes=encodes, decodes=plan.decodes)
        return
    for state, cell, decodes in rows:
        print(f"{state:<12}{decodes} decodes  {cell.label}")
    print(
        f"{len(rows)} cells, {len(rows) - len(left)} done; "
        f"left: {encodes} encodes, {plan.decodes} decodes"
    )


def _write_summary(options: Namespace, folder: Path, errors: int, cells: int) -> None:
    from gsvc.eval.layout import markdown
    from gsvc.eval.summary import write_summary
    from gsvc.eval.summary.tables import protocol, tables

    summary = write_summary(folder)
    if options.json:
        JsonLines(sys.stdout).put("done", run=str(folder), cells=cells, failed=errors)
        return
    print(f"{protocol(summary)}\n")
    for table in tables(summary):
        if table.title.startswith(_MAIN_TABLES):
            print(f"{table.title}\n\n{markdown(table.header, table.rows)}\n")
    print(f"All tables: {folder / 'summary.md'}")


def _tell(options: Namespace, path: Path) -> None:
    if options.json:
        JsonLines(sys.stdout).put("done", path=str(path))
    else:
        print(path)
