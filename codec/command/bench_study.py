"""`gsvc bench study`: a blind pairwise test for people."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.command.arguments import add_json
from gsvc.codec.command.main import CommandParser

DESCRIPTION = "Let people choose between pairs of a run's videos, and score what they chose."

_MAKE = """Write STUDY/page, which voters open in a browser (from a folder or a server), and
STUDY/key.json, which says what they saw: keep it from them. Every clip and level of gsvc is shown
beside AV1 at the nearest rate, without names, in random order and on random sides."""
_SCORE = """Read the files that voters saved and write STUDY/scores.md, .csv, .json and .svg:
Bradley-Terry scores with ties, by clip and pooled, with intervals over voters."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench study`."""
    steps = parser.add_subparsers(
        dest="step", required=True, metavar="STEP", parser_class=CommandParser
    )
    make = steps.add_parser("make", help="write the page for voters", description=_MAKE)
    add = make.add_argument
    add("run", metavar="RUN", help="the folder of the run")
    add("study", metavar="STUDY", help="the folder to make")
    ours = 'a curve of the run, as "gsvc, steps 1" (the one with the most steps)'
    add("--ours", default="", metavar="CURVE", help=ours)
    others = "compared with ours, repeat for several (svtav1)"
    add("--against", action="append", default=[], metavar="CURVE", help=others)
    within = "leave out pairs whose bits differ by more than this factor (%(default)g)"
    add("--within", type=float, default=1.5, metavar="FACTOR", help=within)
    add_json(make)
    score = steps.add_parser("score", help="score votes", description=_SCORE)
    score.add_argument("study", metavar="STUDY", help="the folder of the study")
    score.add_argument("votes", nargs="+", metavar="VOTES", help="files that voters saved")
    add_json(score)


def run(options: Namespace) -> int:
    """Make a study, or score its votes."""
    return {"make": _make, "score": _score}[options.step](options)


def _make(options: Namespace) -> int:
    from gsvc.eval.report.study import StudySettings, make_study

    settings = StudySettings(options.ours, tuple(options.against), options.within, _tell_progress)
    folder = Path(options.study)
    pairs = make_study(Path(options.run), folder, settings)
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


def _score(options: Namespace) -> int:
    from gsvc.eval.report.study_scores import score_study

    text = score_study(Path(options.study), [Path(name) for name in options.votes])
    if options.json:
        JsonLines(sys.stdout).put("done", path=str(Path(options.study) / "scores.json"))
    else:
        print(text)
    return 0


def _tell_progress(line: str) -> None:
    print(f"gsvc: {line}", file=sys.stderr, flush=True)
