"""The scores of two videos as rows, as CSV and as a figure."""

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gsvc.codec.errors import GsvcError
from gsvc.eval.report.style import label, panels
from gsvc.eval.score.measure import Measured
from gsvc.eval.score.pair import Pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[list[str]]
"""The first one names the columns."""


def mean_rows(found: Sequence[Measured]) -> Rows:
    """A row for each metric: name, mean, unit, which values are better."""
    rows = [[m.name, _text(m.scores.mean), m.metric.unit, m.better] for m in found]
    return [["metric", "value", "unit", "better"], *rows]


def frame_rows(found: Sequence[Measured], pair: Pair, indices: Sequence[int]) -> Rows:
    """A row for each frame measured: its number, its time in seconds, every metric of frames."""
    by_frame = each_frame(found)
    rows = [["frame", "time", *(m.name for m in by_frame)]]
    for row, index in enumerate(indices):
        values = [_text(m.scores.values[row]) for m in by_frame]
        rows.append([str(index), f"{pair.times[index]:.6g}", *values])
    return rows


def each_frame(found: Sequence[Measured]) -> list[Measured]:
    """Those that have a value for each frame."""
    return [m for m in found if m.metric.per_frame and m.scores.values]


def as_csv(rows: Rows) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def plotted(found: Sequence[Measured], pair: Pair, indices: Sequence[int], title: str) -> "Figure":
    """A panel for each metric of frames, over time.

    Raises GsvcError when there is none, MissingDependencyError without matplotlib.
    """
    by_name = {m.name: m for m in each_frame(found)}
    if not by_name:
        raise GsvcError("nothing to plot: no metric of single frames has a value")
    times = [pair.times[index] for index in indices]
    figure, places = panels(list(by_name), title)
    for name, axis in places:
        measured = by_name[name]
        values = [float("nan") if v is None else v for v in measured.scores.values]
        axis.plot(times, values, ".-", color="#dd3c2a", markersize=3, linewidth=1)
        unit = f", {measured.metric.unit}" if measured.metric.unit else ""
        label(axis, f"{name}: {measured.better} is better", "seconds", name + unit)
    return figure


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
