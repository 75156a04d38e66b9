"""`gsvc bench plan` and `surface`: is the planner right, and what budgets buy of each other."""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.command.main import Verb
from gsvc.codec.media.output import make_folder

if TYPE_CHECKING:
    from gsvc.codec.planning.machine_profile import Profile
    from gsvc.eval.planning.surface import MeasuredPoint

_PLAN = """Measure the planner by random budgets on packaged clips that none of its constants come
from. Real processes run the plans; the regret is taken over the points of benchmark runs. The same
command resumes. Run gsvc profile first on an idle machine, or give --cpu on a busy one.

summaries SUMMARY.csv...  summaries of runs with gsvc, CVVDP and ST-LPIPS VGG
--out -o OUT!           the folder of the results
--budgets N             number of random budgets (=40)
--frames N              frames of each clip (=97)
--cpu                   measure processor seconds, and make a profile of them
--seed N                seed of the first budget (=0)
--log +FILE             predictions.jsonl of an earlier OUT, to correct predictions; may be repeated
"""
_PATHS = dict.fromkeys(("SUMMARY.csv", "OUT", "FILE", "RUN"), Path)


def _plan(options: Namespace) -> int:
    from gsvc.eval.planning.validation import error_table, kept_line, read_rows

    if options.budgets < 0:
        raise ConfigError(f"budgets {options.budgets}: 0 or more")
    if options.frames < 2:
        raise ConfigError(f"frames {options.frames}: 2 or more")
    rows = read_rows(options.summaries)
    if not rows:
        raise InputError(f"{options.summaries[0]}: no rows of gsvc: give a run's summary.csv")
    clips = list(dict.fromkeys(row.clip for row in rows))
    make_folder(options.out)
    done = _carried_out(options, clips)
    if any("numbers" in one for one in done):
        print(f"{kept_line(done)}\n\n{error_table(done)}\n")
    _show_regrets(rows, clips)
    return 0


def _carried_out(options: Namespace, clips: list[str]) -> list[dict[str, Any]]:
    """The results of all budgets; those that are kept already are not made again."""
    from gsvc.eval.planning.validation import Validation

    validation = Validation(_profile(options), options.log, options.frames, cpu=options.cpu)
    kept = options.out / "results.jsonl"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    seen = {one["seed"] for one in done}
    for number, clip in enumerate(clips):
        seeds = range(options.seed + number, options.seed + options.budgets, len(clips))
        left = [seed for seed in seeds if seed not in seen]
        for one in validation.run(clip, left, options.out / "predictions.jsonl") if left else ():
            done.append(one)
            with kept.open("a") as file:
                file.write(json.dumps(one) + "\n")
            print(
                f"{len(done)} of {options.budgets}: {clip}, budget {one['seed']}", file=sys.stderr
            )
    return done


def _show_regrets(rows: "list[MeasuredPoint]", clips: list[str]) -> None:
    from gsvc.eval.planning.validation import regrets, trial_of

    trials = {clip: trial_of(clip) for clip in clips}
    for quality, unit in (("jod", "JOD"), ("texture", "of the logarithm of ST-LPIPS VGG")):
        found = sorted(regrets(rows, trials, quality))
        middle, most = found[len(found) // 2], found[int(0.9 * len(found))]
        print(
            f"regret over {len(found)} budgets of rate and operations, by {quality}: "
            f"mean {sum(found) / len(found):.3f}, median {middle:.3f}, "
            f"nine in ten within {most:.3f} {unit}"
        )


def _profile(options: Namespace) -> "Profile":
    """Of this machine; that of the processor's seconds is measured once and kept in OUT."""
    from gsvc.codec.planning.machine_profile import load_profile, measure

    if not options.cpu:
        return load_profile()
    path = options.out / "profile.json"
    if not path.exists():
        measure(lambda line: print(line, file=sys.stderr), cpu=True).save(path)
    return load_profile(path)


PLAN = Verb(_PLAN, _plan, TYPES=_PATHS)


_SURFACE = """Plot the exchange of bits, computation and memory in a run with gsvc, CVVDP and
ST-LPIPS VGG: contours of quality, bits at equal quality over computation, a table of exchange
rates, and index.html, a page with sliders for three budgets.

run RUN                 the folder of the run, or its summary.csv for a page without stills
--out -o OUT!           the folder of the results
"""
_NOTE = """Decoding time is the processor's, of all cores, if the run has it. Energy of
sending is that of a bit by a stated model: Huang et al., MobiSys 2012 (LTE, Wi-Fi), and the data
sheet of the SX1276 (LoRa)."""


def _surface(options: Namespace) -> int:
    from gsvc.eval.layout import markdown, write_bytes, write_text
    from gsvc.eval.planning import surface
    from gsvc.eval.report.exhibits import image

    folder = options.run if options.run.is_dir() else None
    points = surface.read_points(folder / "summary.csv" if folder else options.run)
    make_folder(options.out)
    print(f"gsvc: drawing {len(points)} points", file=sys.stderr, flush=True)
    figures = {"contours": surface.contours(points), "iso-quality": surface.iso_quality(points)}
    plots = {name: image(figure, "svg") for name, figure in figures.items()}
    for name, data in plots.items():
        write_bytes(options.out / f"{name}.svg", data)
    table = surface.exchange_table(points)
    stills = surface.stills_of(points, folder / "streams") if folder else {}
    text = surface.page(points, stills, [plot.decode() for plot in plots.values()], table, _NOTE)
    write_text(options.out / "index.html", text)
    told = markdown(table.header, table.rows)
    write_text(options.out / "exchange.md", told + "\n")
    print(told)
    print(
        f"{options.out / 'index.html'}: {len(points)} points, {len(stills)} stills", file=sys.stderr
    )
    return 0


SURFACE = Verb(_SURFACE, _surface, TYPES=_PATHS)
