"""`python tools/readme_chart.py`: charts of the judges, from results in the repository.

`--keep RUN` first replaces these: the run's tables, its sheets named here, and its summary.json
without the lists of pairs of curves, which are in summary.md and can be made again.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.eval.late_loading import CodecFacts
from gsvc.eval.layout import write_bytes, write_text
from gsvc.eval.report.exhibits import CurveStyle, image
from gsvc.eval.report.plots import rate_distortion
from gsvc.eval.summary.curves import OURS, PRIMARY, Curve, CurvePoint, MetricInfo
from gsvc.eval.summary.summarise import SCHEMA

RESULTS = Path(__file__).parents[1] / "eval/results/packaged"
_TABLES = ("headline.csv", "summary.csv", "summary.md")
_SHEETS = ("level0.jpg", "level1.jpg", "level2.jpg", "level1-strips.jpg")
_PAIRS = ("duels", "beside", "frontier")
_CODECS = {
    *("x264", "x265", "vvenc", "svtav1", "svtav1+rife", "hold", "motion"),
    OURS,
}
"""Those that charts show: all of them would hide each other."""
_COLUMNS = 3


def draw_chart(summary: Path, metric: str, target: Path) -> None:
    """Draw RD curves of a summary.json in one metric; the suffix of `target` is .svg or .png.

    Raises InputError when the file is no summary or lacks the metric, OutputError.
    """
    values = _read(summary)
    info = next((one for one in values["metrics"] if one["name"] == metric), None)
    if info is None:
        raise InputError(f"{summary} has no metric {metric}: choose one that was measured")
    style = CurveStyle({name: CodecFacts(**facts) for name, facts in values["codecs"].items()})
    figure = rate_distortion(_curves(values, info), MetricInfo(**info), style, _COLUMNS)
    write_bytes(target, image(figure, target.suffix.removeprefix(".")))


def keep_results(run: Path, folder: Path) -> None:
    """Copy a run's tables, the kept part of its summary.json and its sheets to `folder`.

    Raises InputError when `run` has no summary, OutputError.
    """
    values = {key: value for key, value in _read(run / "summary.json").items() if key not in _PAIRS}
    write_text(folder / "summary.json", json.dumps(values, separators=(",", ":")) + "\n")
    for name in _TABLES:
        write_text(folder / name, (run / name).read_text())
    for name in _SHEETS:
        if (sheet := run / "sheets" / name).exists():
            write_bytes(folder / name, sheet.read_bytes())


def _read(summary: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(summary.read_text())
        if values["schema"] == SCHEMA:
            return values
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{summary} is no summary.json: make one with gsvc bench run") from error
    raise InputError(f"{summary} has schema {values['schema']}, not {SCHEMA}: make it again")


def _curves(values: Mapping[str, Any], info: Mapping[str, Any]) -> list[Curve]:
    points: dict[tuple[str, str, str], list[CurvePoint]] = {}
    for row in values["points"]:
        value = row["scores"].get(info["name"])
        if value is not None and row["bits"] and row["codec"] in _CODECS:
            key = row["clip"], row["curve"], row["codec"]
            points.setdefault(key, []).append(CurvePoint(row["bpp"], value, row["settings"]))
    return [
        Curve(clip, name, codec, info["name"], info["higher_is_better"], tuple(found))
        for (clip, name, codec), found in points.items()
    ]


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python tools/readme_chart.py",
        description="Draw RD curves of a run's summary.json, a chart for each judge.",
    )
    parser.add_argument("summary", nargs="?", type=Path, default=RESULTS / "summary.json")
    parser.add_argument("--keep", type=Path, metavar="RUN", help="keep this run's results first")
    parser.add_argument("--out", "-o", type=Path, default=RESULTS, help="the folder for them")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.keep:
            keep_results(chosen.keep, RESULTS)
        for judge in PRIMARY:
            target = chosen.out / f"chart-{judge}.svg"
            draw_chart(chosen.summary, judge, target)
            print(target)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
