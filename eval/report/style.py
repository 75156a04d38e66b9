"""How the figures look: one colour per curve in all of them, readable on light and on dark."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from math import ceil, log10
from textwrap import fill
from typing import TYPE_CHECKING, Any

from gsvc.eval.late_loading import CodecFacts, optional
from gsvc.eval.summary.curves import OURS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PAPER = "#232323", "#fefefe"
"""Colours that a page may replace by its own."""

_OURS = ("#f2b134", "#ee7d22", "#dd3c2a", "#a8175a", "#6d1160")
_OTHERS = ("#c94f9b", "#6b8e23", "#b0564f", "#4f6fb0", "#7f7f7f")
_PANEL = (3.7, 2.75)
"""Inches: width, height."""
COLUMNS = 2
_DPI = 160
_LEAST_WIDTH = 5.0
_TITLE_LETTER, _LEGEND_LETTER, _LEGEND_HANDLE, _LEGEND_LINE = 0.092, 0.066, 0.55, 0.17
_PANEL_LETTER, _AXIS_LETTERS = 0.083, 0.7
"""Inches, generously: a figure is laid out before its text is drawn."""


class CurveStyle:
    """Colour, marker and order of curves; their names begin with the codec's."""

    def __init__(self, codecs: Mapping[str, CodecFacts]) -> None:
        self._codecs = codecs

    def colours(self, curves: Iterable[str]) -> dict[str, str]:
        """A colour for each curve, in order: the codec's own; ours by their number of steps."""
        names = self.in_order(curves)
        ours = sorted((name for name in names if _codec(name) == OURS), key=_by_number)
        spread = dict(zip(ours, cycle(_OURS), strict=False))
        others = cycle(_OTHERS)
        return {n: spread.get(n) or self._facts(n).colour or next(others) for n in names}

    def marker(self, name: str) -> str:
        """The shape of a curve's points."""
        return self._facts(name).marker

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Curves as legends list them, each once."""
        return sorted(set(names), key=self.rank)

    def rank(self, name: str) -> tuple[bool, bool, str, tuple[int, str]]:
        """Anchors come first, then others, then ours; each by name and by number of steps."""
        codec = _codec(name)
        return codec == OURS, not self._facts(name).is_anchor, codec, _by_number(name)

    def _facts(self, name: str) -> CodecFacts:
        return self._codecs[_codec(name)]


def panels(
    clips: Sequence[str], title: str, columns: int = COLUMNS
) -> tuple["Figure", Iterator[tuple[str, "Axes"]]]:
    """A figure with a panel for each clip, `columns` in a row, and the panels with their clips.

    Raises MissingDependencyError without matplotlib.
    """
    columns = max(1, min(columns, len(clips)))
    rows = ceil(len(clips) / columns)
    figure = new_figure(title, rows * _PANEL[1], columns)
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in places[len(clips) :]:
        spare.set_axis_off()
    return figure, zip(clips, (plain(axis) for axis in places), strict=False)


def new_figure(title: str, height: float, columns: int = COLUMNS) -> "Figure":
    """An empty figure, `columns` panels wide, `height` inches high without title and legend."""
    with optional("plots need matplotlib: pip install 'gsvc[eval]'"):
        from matplotlib.figure import Figure
    width = max(_LEAST_WIDTH, columns * _PANEL[0])
    title = fill(title, int(width / _TITLE_LETTER))
    size = width, height + 0.8
    figure = Figure(figsize=size, layout="constrained", facecolor=PAPER)
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left", fontweight="bold")
    return figure


def plain(axis: "Axes") -> "Axes":
    """The axis with a light grid and no box."""
    axis.set_facecolor("none")
    axis.grid(True, color="#80808040", linewidth=0.6)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    axis.tick_params(colors=INK, labelsize=7.5, which="both")
    return axis


def label(axis: "Axes", title: str, across: str, up: str) -> None:
    """Title and axis labels, in the common sizes; a long title takes several lines."""
    figure, places = axis.get_figure(root=True), axis.get_subplotspec()
    assert figure is not None and places is not None
    wide = figure.get_figwidth() / places.get_gridspec().ncols - _AXIS_LETTERS
    axis.set_title(fill(title, int(wide / _PANEL_LETTER)), fontsize=9, color=INK)
    axis.set_xlabel(across, fontsize=8, color=INK)
    axis.set_ylabel(up, fontsize=8, color=INK)


def log_scale(axis: Any) -> None:
    """A log scale with a few plain numbers and no minor ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    decades = log10(high / low)
    subs = (1, 3) if decades > 1.6 else (1, 2, 5) if decades > 0.9 else (1, 1.5, 2, 3, 5, 7)
    axis.set_major_locator(LogLocator(base=10, subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))


def legend(figure: "Figure") -> None:
    """One legend under the whole figure."""
    handles: dict[str, Artist] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(str(label), handle)
    if handles:
        columns = _legend_columns(list(handles), figure.get_figwidth())
        lines = ceil(len(handles) / columns)
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * max(0, lines - 3))
        figure.legend(
            handles=list(handles.values()),
            labels=list(handles),
            loc="outside lower left",
            ncols=columns,
            fontsize=8,
            frameon=False,
            labelcolor=INK,
        )


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of labels, filled one after the other, are as wide as the figure."""
    for columns in range(min(5, len(labels)), 1, -1):
        lines, more = divmod(len(labels), columns)  # the first `more` columns have a line more
        ends = [lines * k + min(k, more) for k in range(columns + 1)]
        longest = (max(map(len, labels[i:j])) for i, j in pairwise(ends))
        if sum(_LEGEND_HANDLE + _LEGEND_LETTER * letters for letters in longest) <= width:
            return columns
    return 1


def _codec(name: str) -> str:
    return name.split(",")[0]


def _by_number(name: str) -> tuple[int, str]:
    digits = "".join(c for c in name.partition(",")[2] if c.isdigit())
    return (int(digits) if digits else -1, name)


def image(figure: "Figure", kind: str) -> bytes:
    """The figure as the bytes of an "svg" or "png" file; the same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    date = {"Date": None} if kind == "svg" else {}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gsvc"}):
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=date)
    return buffer.getvalue()
