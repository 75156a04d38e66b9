"""`gsvc bench table`, `plot`, `report`, `sheets`, `compare` and `study`: what is made of a run."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import add_json
from gsvc.codec.command.main import CommandParser, Verb

_TABLE = """Print tables of a run as Markdown, CSV or LaTeX (booktabs). Without --title, print the
BD-rates, or the points if there are none. CSV then has a row for each pair and metric.
RUN/summary.csv has every point, with a column for each setting."""
_FORMATS = ("markdown", "csv", "latex")
_USUAL = "BD-rate pooled over clips", "Points"


def _add_table(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of the run")
    add("--format", choices=_FORMATS, default="markdown", metavar="|".join(_FORMATS))
    add("--title", metavar="TEXT", help="tables of summary.md whose titles begin with TEXT")
    anchor = "codec to compare with; may be repeated (conventional codecs)"
    add("--anchor", action="append", metavar="CODEC", help=anchor)


def _table(options: Namespace) -> int:
    """Print the tables."""
    from gsvc.eval import layout
    from gsvc.eval.bench.store import load_run
    from gsvc.eval.summary import rate_tables, summarise, write

    made = load_run(options.run)
    if options.anchor:
        known = list(dict.fromkeys(cell.codec for cell in made.cells))
        if unknown := set(options.anchor) - set(known):
            raise ConfigError(f"no anchor {min(unknown)!r}: the run has {', '.join(known)}")
        made.settings["anchors"] = options.anchor
    summary = summarise.summarise(made.settings, made.cells)
    if rate_tables.has_random_weights(summary):
        raise ConfigError(f"{options.run} is of random weights: they belong in no table")
    if options.format == "csv" and not options.title and summary.pooled:
        print(write.pooled_csv(summary), end="")
        return 0
    every = write.tables(summary)
    begin = (options.title,) if options.title else _USUAL
    found = [table for table in every if table.title.startswith(begin)]
    if not found:
        titles = "; ".join(table.title for table in every)
        raise ConfigError(f"no table of {options.run} is called so, there are: {titles}")
    form = layout.FORMATS[options.format]
    print("\n\n".join(form(table.title, table.header, table.rows) for table in found))
    if not options.title:
        for line in summarise.reasons_without_rate(summary):
            print(line, file=sys.stderr)
    return 0


TABLE = Verb(_TABLE, _add_table, _table)


_STUDY = "Let people compare pairs of a run's videos, and score their votes."
_MAKE = """Write STUDY/page, which voters open in a browser, from a folder or a server, and
STUDY/key.json, which says what they saw: keep it secret. The page shows each clip and level of gsvc
beside AV1 at the nearest rate, without names, in random order and on random sides."""
_SCORE = """Read the files of voters and write STUDY/scores.md, .csv, .json and .svg: Bradley-Terry
scores with ties, by clip and pooled, with intervals over voters."""


def _add_study(parser: ArgumentParser) -> None:
    steps = parser.add_subparsers(
        dest="step", required=True, metavar="STEP", parser_class=CommandParser
    )
    make = steps.add_parser("make", help="write the page for voters", description=_MAKE)
    add = make.add_argument
    add("run", metavar="RUN", help="the folder of the run")
    add("study", metavar="STUDY", help="the folder to write")
    ours = 'curve of the run, such as "gsvc, steps 1" (the one with the most steps)'
    add("--ours", default="", metavar="CURVE", help=ours)
    others = "curve to compare with; may be repeated (svtav1)"
    add("--against", action="append", default=[], metavar="CURVE", help=others)
    within = "skip pairs whose bits differ by more than this factor (%(default)g)"
    add("--within", type=float, default=1.5, metavar="FACTOR", help=within)
    add_json(make)
    score = steps.add_parser("score", help="score votes", description=_SCORE)
    score.add_argument("study", metavar="STUDY", help="the folder of the study")
    score.add_argument("votes", nargs="+", metavar="VOTES", help="files of the voters")
    add_json(score)


def _study(options: Namespace) -> int:
    """Make a study, or score its votes."""
    return {"make": _make_study, "score": _score_study}[options.step](options)


def _make_study(options: Namespace) -> int:
    from gsvc.eval.report.study import make_study

    folder, asked = Path(options.study), {"ours": options.ours, "others": options.against}
    pairs = make_study(
        Path(options.run), folder, **asked, within=options.within, tell=_tell_progress
    )
    page = folder / "page" / "index.html"
    if options.json:
        JsonLines(sys.stdout).put("done", page=str(page), pairs=len(pairs))
        return 0
    for pair in pairs:
        print(
            f"{pair.clip}, level {pair.level}: {pair.ours.curve} at {pair.ours.cell.bpp:.5f} bpp, "
            f"{pair.other.curve} at {pair.bits_ratio:.2f} times its bits"
        )
    print(f"{page} is for the voters; keep {folder / 'key.json'} from them")
    return 0


def _score_study(options: Namespace) -> int:
    from gsvc.eval.report.study_scores import score_study

    text = score_study(Path(options.study), [Path(name) for name in options.votes])
    if options.json:
        JsonLines(sys.stdout).put("done", path=str(Path(options.study) / "scores.json"))
    else:
        print(text)
    return 0


def _tell_progress(line: str) -> None:
    print(f"gsvc: {line}", file=sys.stderr, flush=True)


STUDY = Verb(_STUDY, _add_study, _study)


def _add_run(parser: ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the folder of the run")
    add_json(parser)


def _add_sheets(parser: ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("--faces", action="store_true", help="also draw talking mouths")


def _plot(options: Namespace) -> int:
    from gsvc.eval.report.plots import write_plots
    from gsvc.eval.summary.write import write_summary

    write_summary(Path(options.run))
    write_plots(Path(options.run))
    return _tell_path(options, "plots")


def _report(options: Namespace) -> int:
    from gsvc.eval.report.report_page import write_report
    from gsvc.eval.summary.write import write_summary

    write_summary(Path(options.run))
    write_report(Path(options.run))
    return _tell_path(options, "report.html")


def _sheets(options: Namespace) -> int:
    from gsvc.eval.report.sheets import write_sheets

    write_sheets(Path(options.run), faces=options.faces)
    return _tell_path(options, "sheets")


def _tell_path(options: Namespace, name: str) -> int:
    path = str(Path(options.run) / name)
    if options.json:
        JsonLines(sys.stdout).put("done", path=path)
    else:
        print(path)
    return 0


PLOT = Verb("Draw a run's plots.", _add_run, _plot)
REPORT = Verb("Write a run's HTML page.", _add_run, _report)
SHEETS = Verb("Draw a run's clips beside AV1 at the same rate.", _add_sheets, _sheets)


def _add_compare(parser: ArgumentParser) -> None:
    parser.add_argument("run_a", metavar="RUN_A")
    parser.add_argument("run_b", metavar="RUN_B")
    add_json(parser)


def _compare(options: Namespace) -> int:
    from gsvc.eval.report.compare import compare_runs

    text = compare_runs(Path(options.run_a), Path(options.run_b))
    if options.json:
        JsonLines(sys.stdout).put("done", text=text)
    else:
        print(text)
    return 0


COMPARE = Verb("How two runs differ.", _add_compare, _compare)
