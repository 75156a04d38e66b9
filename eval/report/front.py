"""The front of the two judges: where each tune lies at equal bits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gsvc.encoders.tuning import DEFAULT_TUNE, TUNES
from gsvc.eval.report.style import label, legend, panels
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.points import PointRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = dict(zip(sorted(TUNES, key=lambda tune: TUNES[tune].place), "^os", strict=True))
"""From the tune that weighs structure least to the one that weighs it most."""


def tunes(rows: Sequence[PointRow], judges: tuple[str, str]) -> "Figure | None":
    """One judge over the other, a panel for each clip, a line for each rate.

    None where no rate was coded in more than one tune.
    """
    streams = [row for row in rows if row.codec == OURS and all(map(row.scores.get, judges))]
    if len({_tune(row) for row in streams}) < 2:
        return None
    clips = list(dict.fromkeys(row.clip for row in streams))
    figure, places = panels(clips, f"Tunes at equal bits: {judges[0]} and {judges[1]}", 3)
    for clip, axis in places:
        mine = [row for row in streams if row.clip == clip]
        for rate in dict.fromkeys(_rate(row) for row in mine):
            points = {_tune(row): _place(row, judges) for row in mine if _rate(row) == rate}
            line = [points[tune] for tune in _MARKERS if tune in points]
            axis.plot(*zip(*line, strict=True), color="#9aa0a8", linewidth=1, zorder=1)
            axis.annotate(rate, line[0], fontsize=7, xytext=(4, 4), textcoords="offset points")
            for tune, point in points.items():
                axis.scatter(
                    point[0], point[1], s=26, marker=_MARKERS[tune], color="#2b7bd6", label=tune
                )
        label(axis, clip, judges[0], judges[1])
    legend(figure)
    return figure


def _place(row: PointRow, judges: tuple[str, str]) -> tuple[float, float]:
    return row.scores[judges[0]] or 0.0, row.scores[judges[1]] or 0.0


def _tune(row: PointRow) -> str:
    return str(row.settings.get("tune", DEFAULT_TUNE))


def _rate(row: PointRow) -> str:
    return next(f"{name} {row.settings[name]}" for name in ("bpp", "level") if name in row.settings)
