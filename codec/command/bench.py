"""`gsvc bench`: codecs measured and compared."""

import sys
from argparse import Namespace
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.main import Verb, find_verb
from gsvc.codec.weights.extras import need

USAGE = "Measure gsvc and other codecs on clips: rate, compute, quality. Needs gsvc[eval]."

ACTIONS = {
    "run": ("run a benchmark", "bench:RUN"),
    "table": ("print a run's tables", "bench:TABLE"),
    "plot": ("draw a run's plots", "bench:PLOT"),
    "report": ("write a run's HTML page", "bench:REPORT"),
    "sheets": ("draw a run's clips beside AV1 at the nearest rate", "bench:SHEETS"),
    "compare": ("compare two runs", "bench:COMPARE"),
    "study": ("ask people, and score their votes", "bench:STUDY"),
    "list": ("list codecs, metrics or clips", "bench:LIST"),
    "analyse": ("accuracy of detectors and trackers over rate", "bench_recognition:ANALYSE"),
    "people": ("quality of talking faces and bodies", "bench_recognition:PEOPLE"),
    "backend": ("measure a pretrained model", "bench_costs:BACKEND"),
    "cache": ("measure what a latent cache saves", "bench_costs:CACHE"),
    "flops": ("count the operations of back ends", "bench_costs:FLOPS"),
    "speed": ("time refiners and motion estimation", "bench_costs:SPEED"),
    "plan": ("measure the planner's errors", "bench_planning:PLAN"),
    "surface": ("plot quality over bits, computation and memory", "bench_planning:SURFACE"),
}
_OWN_NEEDS = "analyse", "flops", "speed"
"""Actions that need another extra than the rest, and say so themselves, or none."""


def run(options: Namespace) -> int:
    """Carry out an action."""
    if options.action not in _OWN_NEEDS:
        need("eval", "gsvc bench")
    return find_verb(ACTIONS[options.action][1]).run(options)


_RUN = """Code, decode and score clips with several codecs at several rates. RUN keeps all results:
the same command resumes, and another clip, codec or metric adds to it. What you leave out is as in
RUN, if there is one.

clips [CLIP...]         a set, SET/CLIP, a video or a folder (packaged)
--clips +CLIP -> more_clips  CLIP as an option
--out -o RUN!           the folder of the run
--codec +NAME[:KEY=VALUE,...]  may be repeated; only these run, RUN's others stay as they are;
                        svtav1-best is the opponent of gsvc's results, with rates of its levels
--metric +NAME          may be repeated (bench list metrics); vmaf, ms_ssim need gsvc[bench]
--anchor +CODEC         codec to compare with; may be repeated (conventional codecs)
--size +288|480|native  shorter side (288)
--levels N,N            levels of gsvc (0,1,2,3)
--steps N,N             steps of gsvc's refiner (0,1)
--seeds N,N             seeds of gsvc's refiner (0)
--condition {join,whole}  whole: 30 s, any keyframe interval; join: 97 frames, keyframes at most 4 s
                        apart (join)
--frames N              first frames of each clip, 0 for all (97)
--longest SECONDS       first seconds of each clip, if --frames are not fewer
--stride N              score every N-th frame (7)
--jobs -j N             processes; 0: one for each core (=0)
--ray ADDRESS           Ray cluster to run on; local starts one here
--dry-run -n            only list the cells, and the time left by those that are done
--json                  progress and result as one JSON object a line
"""


def _run(options: Namespace) -> int:
    from gsvc.codec.command.bench_run import run

    return run(options)


RUN = Verb(_RUN, _run)


_LIST = """List what --codec, --metric and --clips take. Codecs are listed with their options and
usual values, as NAME:KEY=VALUE+VALUE,... Codecs and metrics may also be your own module:Class.

kind {codecs,metrics,clips}
--json
"""
_WIDEST = 60
"""Columns that a cell is padded to; the few longer ones push the rest of their line aside."""


def _list(options: Namespace) -> int:
    from gsvc.eval.bench import cells

    header, rows = getattr(cells, f"listed_{options.kind}")()
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put(header[0], **dict(zip(("name", *header[1:]), row, strict=True)))
        return 0
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        print("  ".join([*map(str.ljust, row, widths), row[-1]]))
    return 0


LIST = Verb(_LIST, _list)


_TABLE = """Print tables of a run as Markdown, CSV, LaTeX (booktabs) or JSON. Without --title, print
the BD-rates, or the points if there are none; CSV then has a row for each pair and metric, JSON all
numbers of the run. RUN/summary.csv has every point, with a column for each setting.

run RUN                 the folder of the run, or its summary.csv
--format markdown|csv|latex|json  (=markdown)
--title TEXT            tables of summary.md whose titles begin with TEXT
--anchor +CODEC         codec to compare with; may be repeated (conventional codecs)
"""
_USUAL = "BD-rate pooled over clips", "Points"


def _table(options: Namespace) -> int:
    from gsvc.eval import layout
    from gsvc.eval.baselines import code_hash
    from gsvc.eval.summary import rate_tables, summarise, write

    if (form := layout.FORMATS.get(options.format)) is None:
        raise ConfigError(f"--format {options.format}: give {', '.join(layout.FORMATS)}")
    made = summarise.load_kept(options.run)
    if options.anchor:
        summarise.check_codecs(options.anchor, made.cells)
        made.settings["anchors"] = options.anchor
    summary = summarise.summarise(made.settings, made.cells)
    if rate_tables.has_random_weights(summary):
        raise ConfigError(f"{options.run} is of random weights: they belong in no table")
    if options.format == "csv" and not options.title and summary.pooled:
        print(write.pooled_csv(summary), end="")
        return 0
    if options.format == "json" and not options.title:
        print(write.summary_json(summary))
        return 0
    every = write.tables(summary)
    begin = (options.title,) if options.title else _USUAL
    found = [table for table in every if table.title.startswith(begin)]
    if not found:
        titles = "; ".join(table.title for table in every)
        raise ConfigError(f"no table of {options.run} is called so, there are: {titles}")
    print("\n\n".join(form(table.title, table.header, table.rows) for table in found))
    told = [] if options.title else [*summarise.reasons_without_rate(summary)]
    if "Headline".startswith(options.title or ""):
        told += rate_tables.headline_gaps(summary)
        told += code_hash.measured_by(options.run)
    for line in told:
        print(line, file=sys.stderr)
    return 0


TABLE = Verb(_TABLE, _table)


_MAKE = """Write STUDY/page, which voters open in a browser, from a folder or a server, and
STUDY/key.json, which says what they saw: keep it secret. The page shows each clip and level of gsvc
beside AV1 at the nearest rate, without names, in random order and on random sides.

run RUN                 the folder of the run
study STUDY             the folder to write
--ours CURVE            curve of the run, such as "gsvc, steps 1" (the one with the most steps)
--against +CURVE        curve to compare with; may be repeated (svtav1)
--within FACTOR         skip pairs whose bits differ by more than this factor (=1.5)
--json
"""
_SCORE = """Read the files of voters and write STUDY/scores.md, .csv and .json: Bradley-Terry
scores with ties, by clip and pooled, with intervals over voters.

study STUDY             the folder of the study
votes VOTES...          files of the voters
--json
"""


def _make_study(options: Namespace) -> int:
    from gsvc.eval.report.study import make_study

    folder, asked = Path(options.study), {"ours": options.ours or "", "others": options.against}

    def tell(line: str) -> None:
        print(f"gsvc: {line}", file=sys.stderr, flush=True)

    pairs = make_study(Path(options.run), folder, **asked, within=options.within, tell=tell)
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
    return _done(options, text, path=str(Path(options.study) / "scores.json"))


def _done(options: Namespace, shown: str, **values: str) -> int:
    if options.json:
        JsonLines(sys.stdout).put("done", **values)
    else:
        print(shown)
    return 0


_STEPS = {
    "make": ("write the page for voters", "bench:MAKE_STUDY"),
    "score": ("score votes", "bench:SCORE_STUDY"),
}


MAKE_STUDY = Verb(_MAKE, _make_study)
SCORE_STUDY = Verb(_SCORE, _score_study)
_STUDY = "Let people compare pairs of a run's videos, and score their votes."
STUDY = Verb(
    _STUDY, lambda options: find_verb(_STEPS[options.step][1]).run(options), ACTIONS=_STEPS
)
_RUN_OF = "\n\nrun RUN                 the folder of the run\n--json\n"


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
    write_report(Path(options.run), options.codec)
    return _tell_path(options, "report.html")


def _sheets(options: Namespace) -> int:
    from gsvc.eval.report.sheets import write_sheets

    write_sheets(Path(options.run), faces=options.faces, codecs=options.codec)
    return _tell_path(options, "sheets")


def _tell_path(options: Namespace, name: str) -> int:
    path = str(Path(options.run) / name)
    return _done(options, path, path=path)


PLOT = Verb(f"Draw a run's plots.{_RUN_OF}", _plot)
_ALSO = "--codec +CODEC          also show this codec; may be repeated"
REPORT = Verb(f"Write a run's HTML page.{_RUN_OF}{_ALSO}", _report)
_SHEETS = f"""Draw a run's clips beside AV1 at the nearest rate.{_RUN_OF}{_ALSO}
--faces                 also draw talking mouths
"""
SHEETS = Verb(_SHEETS, _sheets)


def _compare(options: Namespace) -> int:
    from gsvc.eval.layout import records
    from gsvc.eval.report.compare import compare_runs

    told, tables = compare_runs(options.run_a, options.run_b)
    if options.json:
        found = {one.title: records(one.header, one.rows) for one in tables}
        JsonLines(sys.stdout).put("done", notes=told, tables=found)
        return 0
    print("\n\n".join(["# B against A", *told, *(table.section for table in tables)]))
    return 0


_COMPARE = """How two runs differ.

run_a RUN_A             the folder of a run, or its summary.csv
run_b RUN_B
--json
"""
COMPARE = Verb(_COMPARE, _compare)
