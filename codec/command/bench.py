"""`gsvc bench`: codecs measured and compared. An action imports what it needs of `gsvc.eval`."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.command.arguments import add_json, integers
from gsvc.codec.command.main import CommandParser
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    from gsvc.eval.baselines.base import Option
    from gsvc.eval.bench.named import CodecSpec, RunSettings
    from gsvc.eval.bench.show import Reporter
    from gsvc.eval.bench.store import BenchFolder
    from gsvc.eval.bench.workers import Workers

DESCRIPTION = "Measure gsvc and other codecs on clips: rate, compute, quality. Needs gsvc[eval]."

_RUN = """Code, decode and score clips with several codecs at several rates. What RUN has already is
kept: the same command resumes, another clip, codec, metric or way to decode adds to it."""
_MODULES = {
    "analyse": "gsvc.codec.command.bench_analyse",
    "backend": "gsvc.codec.command.bench_backend",
    "cache": "gsvc.codec.command.bench_cache",
    "files": "gsvc.codec.command.bench_files",
    "flops": "gsvc.codec.command.bench_flops",
    "list": "gsvc.codec.command.bench_list",
    "people": "gsvc.codec.command.bench_people",
    "plan": "gsvc.codec.command.bench_plan",
    "table": "gsvc.codec.command.bench_table",
    "speed": "gsvc.codec.command.bench_speed",
    "surface": "gsvc.codec.command.bench_surface",
    "study": "gsvc.codec.command.bench_study",
}
"""Actions that are modules of their own."""
_OWN_NEEDS = "analyse", "files", "flops", "speed"
"""Actions that need another extra than the rest, and say so themselves, or none."""
_CLIPS = "packaged"
_INTERRUPTED = 130
_MAIN_TABLES = (
    *("Headline", "Slideshow test", "What is missing", "BD-rate pooled over clips", "Points"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench`."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=CommandParser
    )
    _add_run(actions.add_parser("run", help="make a run", description=_RUN))
    for name, text in (
        ("plot", "draw a run's plots"),
        ("report", "write a run's HTML page"),
        ("sheets", "draw a run's clips beside AV1 at the same rate"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("run", metavar="RUN", help="the folder of the run")
        if name == "sheets":
            action.add_argument("--faces", action="store_true", help="also mouths that speak")
        add_json(action)
    for name, text in (
        ("analyse", "accuracy of detections and tracks over rate"),
        ("backend", "measure a pretrained model where its weights are"),
        ("cache", "what a latent cache saves"),
        ("files", "check a copy of a set against its manifest"),
        ("flops", "what back ends compute, without weights"),
        ("list", "what codecs, metrics and clips there are"),
        ("people", "what is left of faces that speak"),
        ("plan", "is the planner right?"),
        ("table", "print a run's tables"),
        ("speed", "how fast refiners and motion are"),
        ("surface", "what bits, computation and memory buy of each other"),
        ("study", "let people choose, and score their votes"),
    ):
        actions.add_parser(name, help=text, module=_MODULES[name])
    compare = actions.add_parser("compare", help="two runs", description="How two runs differ.")
    compare.add_argument("run_a", metavar="RUN_A")
    compare.add_argument("run_b", metavar="RUN_B")
    add_json(compare)


def _add_run(parser: ArgumentParser) -> None:
    from gsvc.eval.bench.named import CONDITIONS, RunSettings

    add = parser.add_argument
    frames, stride, (size,) = RunSettings.frames, RunSettings.stride, RunSettings.sizes
    clips = f"a set, SET/CLIP, a video or a folder ({_CLIPS})"
    add("clips", nargs="*", metavar="CLIP", help=clips)
    same = "the same, as an option"
    add("--clips", dest="more_clips", action="append", metavar="CLIP", help=same)
    add("--out", "-o", required=True, metavar="RUN", help="the folder of the run")
    add("--codec", action="append", metavar="NAME[:KEY=VALUE,...]", help="repeat for several")
    add("--metric", action="append", metavar="NAME", help="repeat for several")
    against = "codec that the others are measured against, repeat for several"
    add("--anchor", action="append", metavar="CODEC", help=against)
    add("--size", action="append", metavar="288|480|native", help=f"short side ({size})")
    add("--levels", type=integers, metavar="N,N", help="of gsvc (0,1,2,3)")
    add("--steps", type=integers, metavar="N,N", help="of gsvc's refiner (0,1)")
    add("--seeds", type=integers, metavar="N,N", help="of gsvc's refiner (0)")
    how = (
        "whole: 30 s of each clip, no limit on random access; join: 97 frames, an access every 4 s"
    )
    add("--condition", choices=sorted(CONDITIONS), help=how)
    count = f"from the start, 0 for all ({frames})"
    add("--frames", type=int, metavar="N", help=count)
    add("--longest", type=float, metavar="SECONDS", help="of each clip at most, from its start")
    every = "score every N-th frame (%(default)s)"
    add("--stride", type=int, default=stride, metavar="N", help=every)
    jobs = "processes, 0 for one a core (%(default)s)"
    add("--jobs", "-j", type=int, default=0, metavar="N", help=jobs)
    add("--ray", metavar="ADDRESS", help="run on a Ray cluster; local starts one here")
    add("--dry-run", "-n", action="store_true", help="only list the cells and what is left")
    add_json(parser, "progress and result as ")


def run(options: Namespace) -> int:
    """Make a run, show one, or carry out an action of `_MODULES`."""
    if options.action not in _OWN_NEEDS:
        need("eval", "gsvc bench")
    if options.action in _MODULES:
        code: int = import_module(_MODULES[options.action]).run(options)
        return code
    return {"run": _run, "compare": _compare}.get(options.action, _show)(options)


def _run(options: Namespace) -> int:
    """Run what is not done yet, or list it."""
    from gsvc.eval.bench.show import JsonReporter, Reporter, TextReporter
    from gsvc.eval.bench.store import BenchFolder

    settings, folder = _settings(options), BenchFolder(Path(options.out))
    reporter: Reporter = JsonReporter(JsonLines(sys.stdout)) if options.json else TextReporter()
    action = _list_cells if options.dry_run else _carry_out
    return action(options, settings, folder, reporter)


def _settings(options: Namespace) -> "RunSettings":
    from gsvc.eval.bench.named import CONDITIONS, RunSettings, under
    from gsvc.eval.metrics import DEFAULT_METRICS

    codecs, frames, longest = list(_codecs(options)), RunSettings.frames, None
    if options.condition is not None:
        condition = CONDITIONS[options.condition]
        codecs = [under(condition, spec) for spec in codecs]
        frames, longest = condition.frames, condition.longest
    if options.frames is not None:
        frames = options.frames or None
    if options.longest is not None:
        longest = options.longest or None
    return RunSettings(
        clips=tuple([*options.clips, *(options.more_clips or [])] or [_CLIPS]),
        codecs=tuple(codecs),
        metrics=tuple(dict.fromkeys(options.metric or DEFAULT_METRICS)),
        sizes=tuple(dict.fromkeys(options.size or RunSettings.sizes)),
        anchors=tuple(dict.fromkeys(options.anchor or ())),
        frames=frames,
        longest=longest,
        stride=options.stride,
    )


def _codecs(options: Namespace) -> "Iterator[CodecSpec]":
    """The codecs asked for; --levels, --steps and --seeds are options of gsvc."""
    from gsvc.eval.baselines import DEFAULT_CODECS
    from gsvc.eval.bench.named import codec_spec

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
def _workers(options: Namespace) -> "Iterator[Workers]":
    from gsvc.eval.bench.workers import local_pool, ray_workers

    if options.jobs < 0:
        raise ConfigError(f"jobs {options.jobs}: 0 for one a core, or a number of workers")
    if options.ray is not None:
        with ray_workers(options.ray, options.jobs) as cluster:
            yield cluster
    else:
        with local_pool(options.jobs) as pool:
            yield pool


def _carry_out(
    options: Namespace, settings: "RunSettings", folder: "BenchFolder", reporter: "Reporter"
) -> int:
    """Run what is left, then write the summary and show the main tables.

    Returns 1 when a cell failed or a clip could not be read, else 0. A missing package is a gap in
    the tables.
    """
    from gsvc.eval.bench.run import carry_out, make_plan

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
    _show_summary(options, folder.path, errors, len(plan.cells))
    unread = any(gap.kind == "clip" for gap in plan.gaps)
    return int(bool(errors) or unread)


def _list_cells(
    options: Namespace, settings: "RunSettings", folder: "BenchFolder", reporter: "Reporter"
) -> int:
    from gsvc.eval.bench.run import make_plan

    with _workers(options) as workers:
        plan = make_plan(settings, folder, workers, reporter)
    left = {job.cell.key: job for job in plan.jobs}
    rows = []
    for cell in plan.cells:
        job = left.get(cell.key)
        state = "done" if job is None else "to do" if job.stream is None else "to complete"
        rows.append((state, cell, job.decodes if job else 0))
    encodes, decodes = sum(job.stream is None for job in plan.jobs), plan.decodes
    if options.json:
        lines = JsonLines(sys.stdout)
        for state, cell, count in rows:
            lines.put("cell", state=state, key=cell.key, label=cell.label, decodes=count)
        lines.put("done", cells=len(rows), left=len(left), encodes=encodes, decodes=decodes)
        return 0
    for state, cell, count in rows:
        print(f"{state:<12}{count} decodes  {cell.label}")
    done = len(rows) - len(left)
    print(f"{len(rows)} cells, {done} done; left: {encodes} encodes, {decodes} decodes")
    return 0


def _show_summary(options: Namespace, folder: Path, errors: int, cells: int) -> None:
    from gsvc.eval.layout import markdown
    from gsvc.eval.summary import write_summary
    from gsvc.eval.summary.rate_tables import headline_gaps, protocol, warnings
    from gsvc.eval.summary.summarise import reasons_without_rate, slowest
    from gsvc.eval.summary.write import tables

    summary = write_summary(folder)
    parts = [protocol(summary)]
    for table in tables(summary):
        if table.title.startswith(_MAIN_TABLES):
            parts += [table.title, markdown(table.header, table.rows)]
    parts += [*reasons_without_rate(summary)]
    parts += [f"Slowest: {', '.join(slowest(summary.durations))}"] if summary.durations else []
    parts += [*headline_gaps(summary), *warnings(summary)]
    parts.append(f"All tables: {folder / 'summary.md'}")
    lead = asdict(summary.headline)
    _tell(options, "\n\n".join(parts), run=str(folder), cells=cells, failed=errors, headline=lead)


def _show(options: Namespace) -> int:
    """Draw a run's plots, page or sheets."""
    from gsvc.eval.report import write_plots, write_report, write_sheets
    from gsvc.eval.summary import write_summary

    folder = Path(options.run)
    made = {"plot": "plots", "report": "report.html", "sheets": "sheets"}[options.action]
    if options.action == "sheets":
        write_sheets(folder, faces=options.faces)
    else:
        write_summary(folder)
        (write_plots if options.action == "plot" else write_report)(folder)
    return _tell(options, str(folder / made), path=str(folder / made))


def _compare(options: Namespace) -> int:
    from gsvc.eval.report import compare_runs

    text = compare_runs(Path(options.run_a), Path(options.run_b))
    return _tell(options, text, text=text)


def _tell(options: Namespace, line: str, **values: object) -> int:
    """The result as a line, or as JSON `values`."""
    if options.json:
        JsonLines(sys.stdout).put("done", **values)
    else:
        print(line)
    return 0
