"""What is shown of each clip, and how figures look: one colour per curve in all of them.

The source stands beside one decoded clip of each codec, near one rate, the worst frames first.
Streams are decoded again, and must give what the run measured.
"""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from math import ceil, inf, log, log10
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import TestClip, frames_sha256
from gsvc.datasets.clips.sets import SETS, find_clips
from gsvc.eval.bench.store import BenchFolder, CellRecord, Damaged, DecodeRecord
from gsvc.eval.late_loading import CodecFacts, optional
from gsvc.eval.summary.bd_comparisons import SLIDESHOW
from gsvc.eval.summary.curves import ABLATION, OURS, MetricInfo, by_curve, clip_label, distance
from gsvc.eval.summary.rate_tables import number, primary
from gsvc.eval.summary.summarise import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414 - others import both from here
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414
else:
    Axes = Figure = Any  # matplotlib is loaded when something is drawn

INK, PAPER = "#232323", "#fefefe"
"""Colours that a page may replace by its own."""

_OURS = ("#f2b134", "#ee7d22", "#dd3c2a", "#a8175a", "#6d1160")
_OTHERS = ("#c94f9b", "#6b8e23", "#b0564f", "#4f6fb0", "#7f7f7f")
_PANEL = (3.7, 2.75)  # inches: width, height
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
    names: Iterable[str], title: str, columns: int = COLUMNS
) -> tuple[Figure, Iterator[tuple[str, Axes]]]:
    """A figure with a panel for each clip, `columns` in a row, and the panels with their clips.

    Raises MissingDependencyError without matplotlib.
    """
    clips = list(dict.fromkeys(names))
    columns = max(1, min(columns, len(clips)))
    rows = ceil(len(clips) / columns)
    figure = new_figure(title, rows * _PANEL[1], columns)
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in places[len(clips) :]:
        spare.set_axis_off()
    return figure, zip(clips, (plain(axis) for axis in places), strict=False)


def new_figure(title: str, height: float, columns: int = COLUMNS) -> Figure:
    """An empty figure, `columns` panels wide, `height` inches high without title and legend."""
    with optional("plots need matplotlib: pip install 'gsvc[eval]'"):
        from matplotlib.figure import Figure
    width = max(_LEAST_WIDTH, columns * _PANEL[0])
    title = fill(title, int(width / _TITLE_LETTER))
    figure = Figure(figsize=(width, height + 0.8), layout="constrained", facecolor=PAPER)
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left", fontweight="bold")
    return figure


def plain(axis: Axes) -> Axes:
    """The axis with a light grid and no box."""
    axis.set_facecolor("none")
    axis.grid(True, color="#80808040", linewidth=0.6)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    axis.tick_params(colors=INK, labelsize=7.5, which="both")
    return axis


def label(axis: Axes, title: str, across: str, up: str) -> None:
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


def legend(figure: Figure) -> None:
    """One legend under the whole figure."""
    handles: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(str(label), handle)
    if handles:
        columns = _legend_columns(list(handles), figure.get_figwidth())
        lines = ceil(len(handles) / columns)
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * max(0, lines - 3))
        look: dict[str, Any] = {"ncols": columns, "fontsize": 8, "frameon": False}
        look["labelcolor"] = INK
        figure.legend([*handles.values()], [*handles], loc="outside lower left", **look)


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


def image(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of an "svg" or "png" file; the same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    date = {"Date": None} if kind == "svg" else {}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gsvc"}):
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=date)
    return buffer.getvalue()


BEST_KNOWN = "svtav1"
_USUAL_LEVEL = 1


class VersionChoice(NamedTuple):
    """A decoded cell, and the name of its curve."""

    curve: str
    cell: CellRecord
    decode: DecodeRecord

    def measured(self, metric: str, stride: int) -> list[tuple[int, float]]:
        """Frames and their values in a metric, where it has any."""
        scores = self.decode.scores.get(metric)
        frames = range(0, self.cell.frames, stride)
        pairs = zip(frames, scores.values if scores else (), strict=False)
        return [(frame, value) for frame, value in pairs if value is not None]


def near_rate(
    summary: Summary, cells: Sequence[CellRecord], level: int = _USUAL_LEVEL, within: float = inf
) -> dict[str, list[VersionChoice]]:
    """By clip label: each curve's cell nearest in log rate, of equals the better one; those that
    are `within` a factor of the rate.

    The rate is that of our stream at `level`, else the median of ours, else of all.
    """
    metric = next(iter(summary.metrics), None)
    clips: dict[str, list[CellRecord]] = {}
    for cell in cells:
        if cell.bits and cell.decodes and cell.codec != ABLATION:
            clips.setdefault(clip_label(cell), []).append(cell)
    return {clip: _choose(mine, metric, level, within) for clip, mine in clips.items()}


def few(
    choices: Sequence[VersionChoice], summary: Summary, also: Collection[str] = ()
) -> list[VersionChoice]:
    """Of one clip's choices: AV1, the slideshow, codecs of `also`, ours of least and most compute.

    AV1 is whichever codec of its family is nearest in bits to ours, another anchor without it.
    Without ours: an anchor and the others.
    """
    metric = next(iter(summary.metrics), None)
    ours = [one for one in choices if one.cell.codec == OURS]
    ours.sort(key=lambda one: one.decode.flops_per_pixel or 0.0)
    bits, codecs = ours[-1].cell.bits if ours else 0, summary.codecs
    family = codecs[BEST_KNOWN].family if BEST_KNOWN in codecs else ""
    anchors = [one for one in choices if family and codecs[one.cell.codec].family == family]
    anchors = anchors or [one for one in choices if codecs[one.cell.codec].is_anchor]
    anchors.sort(key=lambda one: (_apart(one.cell.bits, bits), _distance(one.decode, metric)))
    if not ours:
        return [*anchors[:1], *(one for one in choices if one not in anchors)]
    floors = [one for one in choices if one.cell.codec in (SLIDESHOW, *also)]
    mine = ours if OURS in also else [*ours[:1], *ours[1:][-1:]]
    return [*anchors[:1], *(one for one in floors if one not in (*anchors[:1], *ours)), *mine]


def _apart(rate: float, other: float) -> float:
    """The log ratio, coarsely: small differences are none. 0 where one is 0."""
    return round(abs(log(rate / other)), 1) if rate and other else 0.0


def _choose(
    cells: Sequence[CellRecord], metric: MetricInfo | None, level: int, within: float
) -> list[VersionChoice]:
    ours = [cell for cell in cells if cell.codec == OURS]
    wanted = [cell for cell in ours if cell.settings.get("level") == level]
    rates = sorted(cell.bpp for cell in wanted or ours or cells)
    rate = rates[len(rates) // 2]
    found: dict[str, tuple[tuple[float, float], VersionChoice]] = {}
    for cell in cells:
        for name, decodes in by_curve(cell).items():
            one = VersionChoice(name, cell, decodes[0])
            rank = _apart(cell.bpp, rate), _distance(one.decode, metric)
            if name not in found or rank < found[name][0]:
                found[name] = rank, one
    near = [one for _, one in found.values()]
    return [one for one in near if rate / within <= one.cell.bpp <= rate * within]


def _distance(decode: DecodeRecord, metric: MetricInfo | None) -> float:
    """In the metric; clips without it rank last."""
    scores = decode.scores.get(metric.name) if metric else None
    if metric and scores and scores.mean is not None:
        return distance(scores.mean, metric.higher_is_better)
    return inf


def source_of(cell: CellRecord, places: Sequence[str] = ()) -> TestClip:
    """The clip that a cell coded; `places`: files and folders to find it in, beside the known sets.

    Raises InputError when it is not here, or is another one now.
    """
    # First as in the run: beside other sets, a clip of a user's would get another name.
    there = [one for one in places if Path(one).exists() or one.partition("/")[0].lower() in SETS]
    named = (one for some in (there, SETS) for one in find_clips(some) if one.name == cell.clip)
    if (found := next(named, None)) is None:
        raise InputError(f"{cell.clip} is in no set that is known here: bring the clip back")
    clip = found.load(cell.size, cell.frames)
    if clip.sha256 != cell.source_sha256:
        raise InputError(f"{cell.clip} is another clip now than the run measured: run it again")
    return clip


def decoded(folder: Path, choice: VersionChoice, source: TestClip) -> tuple[Sequence[Picture], str]:
    """The pictures of a stream in the run's folder, and what is wrong with them or "".

    Raises InputError when the stream is damaged, and as its codec does.
    """
    import torch

    from gsvc.eval.baselines import find_codec
    from gsvc.eval.bench.cells import codec_spec, make_codec

    # A network's last bits depend on the number of threads; a run gives its workers one each.
    torch.set_num_threads(1)
    cell, decode = choice.cell, choice.decode
    specs = map(codec_spec, (BenchFolder(folder).settings() or {}).get("specs", ()))
    own = (make_codec(spec) for spec in specs if spec.is_own)
    codec = next((one for one in own if one.name == cell.codec), None) or find_codec(cell.codec)
    try:
        data = BenchFolder(folder).stream(cell)
    except Damaged as error:
        text = str(error).replace("its stream", f"the stream {cell.key}")
        raise InputError(f"{text}: run the benchmark again") from error
    frames = codec.decode(data, source.format, cell.settings, decode.way).frames
    if frames_sha256(frames) == decode.frames_sha256:
        return frames, ""
    return frames, f"{choice.curve} decodes here to other pictures than were measured"


SOURCE = "source"
_EQUAL = 1.3  # factor between bits that still count as equal


@dataclass(frozen=True)
class Pane:
    """One version of a clip."""

    name: str
    facts: str
    """For its caption: rate, quality."""
    frames: Sequence[Picture] = field(repr=False)
    """RGB uint8 (H, W, 3)."""


class Exhibit(NamedTuple):
    """A clip with its versions."""

    clip: str
    source: TestClip | None
    """None when it cannot be loaded."""
    panes: list[Pane]
    """The source first, what is judged last."""
    worst: int
    """The worst measured frame of the last version."""
    troubles: list[str]
    """What could not be shown, and why."""


def exhibits(
    folder: Path,
    summary: Summary,
    chosen: Mapping[str, Sequence[VersionChoice]],
    places: Sequence[str] = (),
) -> Iterator[Exhibit]:
    """One clip after the other, the one with the worst frame first, each loaded in its turn.

    `chosen`: what to show, by clip label.
    `places`: files and folders with clips that are in no known set.
    """
    metric = next((one for one in summary.metrics if one.per_frame), None)
    rank = CurveStyle(summary.codecs).rank
    ordered = {clip: sorted(ones, key=lambda o: rank(o.curve)) for clip, ones in chosen.items()}
    worst = {clip: _worst(ones[-1], metric, summary.stride) for clip, ones in ordered.items()}
    for clip in sorted(worst, key=lambda clip: -worst[clip][1]):
        yield load_exhibit(folder, clip, ordered[clip], summary, places, worst[clip][0])


def load_exhibit(
    folder: Path,
    clip: str,
    choices: Sequence[VersionChoice],
    summary: Summary,
    places: Sequence[str] = (),
    worst: int = 0,
) -> Exhibit:
    """The source and `choices` decoded; what goes wrong is in its `troubles`."""
    cell = choices[0].cell
    try:
        source = source_of(cell, places)
    except GsvcError as error:
        return Exhibit(clip, None, [], worst, [f"not shown: {error}"])
    size = f"{cell.width}x{cell.height}, {cell.frames} frames"
    panes, troubles = [Pane(SOURCE, size, source.frames)], list[str]()
    for choice in choices:
        try:
            frames, trouble = decoded(folder, choice, source)
            panes.append(Pane(choice.curve, facts_of(choice, summary, choices[-1]), frames))
            troubles += [trouble] * bool(trouble)
        except GsvcError as error:
            troubles.append(f"{choice.curve} is not shown: {error}")
    return Exhibit(clip, source, panes, worst, troubles)


def facts_of(choice: VersionChoice, summary: Summary, judged: VersionChoice) -> str:
    """Rate and quality by the primary metrics; first how many times the bits of `judged`."""
    ratio = choice.cell.bits / judged.cell.bits
    parts = [f"{ratio:.1f} TIMES THE BITS"] if max(ratio, 1 / ratio) > _EQUAL else []
    parts += [f"{choice.cell.bpp:.5f} bpp", f"{choice.cell.bitrate / 1000:.1f} kbit/s"]
    for metric in primary(summary):
        scores = choice.decode.scores.get(metric.name)
        if scores and scores.mean is not None:
            parts.append(f"{metric.name} {number(scores.mean)}")
    return ", ".join(parts)


def _worst(choice: VersionChoice, metric: MetricInfo | None, stride: int) -> tuple[int, float]:
    pairs = choice.measured(metric.name, stride) if metric else []
    far = ((t, distance(v, metric.higher_is_better)) for t, v in pairs if metric)
    return max(far, key=lambda pair: pair[1], default=(0, 0.0))
