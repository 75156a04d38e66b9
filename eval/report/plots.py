"""A run's figures: RD curves, quality over decoding time, bits by layer, quality by frame.

The front of the two judges shows where each tune lies at equal bits.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gsvc.encoders.tuning import DEFAULT_TUNE, TUNES
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.layout import write_bytes
from gsvc.eval.report import exhibits
from gsvc.eval.report.exhibits import Axes, Figure
from gsvc.eval.summary import curves
from gsvc.eval.summary.summarise import Summary, curves_by_metric, load_summary

_BY_WEIGHT = sorted(TUNES, key=lambda tune: TUNES[tune].structure_weight)
_NEAR = 2.0  # in proportion to a rate, what is near it
_MARKERS = dict(zip(_BY_WEIGHT, "^os", strict=True))
"""From the tune that weighs structure least to the one that weighs it most."""


def tunes(rows: Sequence[curves.PointRow], judges: tuple[str, str]) -> Figure | None:
    """One judge over the other, a panel a clip, a line a rate; None without a rate in two tunes."""
    streams = [row for row in rows if row.codec == curves.OURS and all(map(row.scores.get, judges))]
    if len({_tune(row) for row in streams}) < 2:
        return None
    title = f"Tunes at equal bits: {judges[0]} and {judges[1]}"
    figure, places = exhibits.panels((row.clip for row in streams), title, 3)
    for clip, axis in places:
        rates: dict[str, dict[str, tuple[float, float]]] = {}
        for row in (row for row in streams if row.clip == clip):
            rate = next(f"{n} {row.settings[n]}" for n in ("bpp", "level") if n in row.settings)
            place = row.scores[judges[0]] or 0.0, row.scores[judges[1]] or 0.0
            rates.setdefault(rate, {})[_tune(row)] = place
        for rate, points in rates.items():
            line = [points[tune] for tune in _MARKERS if tune in points]
            axis.plot(*zip(*line, strict=True), color="#9aa0a8", linewidth=1, zorder=1)
            axis.annotate(rate, line[0], fontsize=7, xytext=(4, 4), textcoords="offset points")
            for tune, point in points.items():
                axis.scatter(*point, s=26, marker=_MARKERS[tune], color="#2b7bd6", label=tune)
        exhibits.label(axis, clip, judges[0], judges[1])
    exhibits.legend(figure)
    return figure


def _tune(row: curves.PointRow) -> str:
    return str(row.settings.get("tune", DEFAULT_TUNE))


_TIME = "decoding time, multiples of x265 slow encoding"
_LAYER_COLOURS = ("#9aa0a8", "#2b7bd6", "#2f8f5b", "#8e5bd0", "#ee7d22", "#dd3c2a", "#17a2b0")


def write_plots(folder: str | Path) -> list[Path]:
    """Draw every figure of the run in `folder` into its plots/ as SVG and PNG; returns the paths.

    Raises InputError when the folder holds no run, OutputError, MissingDependencyError.
    """
    run, summary = load_summary(folder)
    target = Path(folder) / "plots"
    written = []
    for name, figure in figures(summary, run.cells):
        for kind in ("svg", "png"):
            path = target / f"{name.replace(':', '_')}.{kind}"
            write_bytes(path, exhibits.image(figure, kind))
            written.append(path)
    return written


def figures(summary: Summary, cells: Sequence[CellRecord]) -> Iterator[tuple[str, Figure]]:
    """Names and figures; those without anything to show are left out."""
    every = curves_by_metric(cells, summary.metrics, summary.codecs)
    for metric in summary.metrics:
        found = [curve for curve in every[metric.name] if curve.points]
        if found:
            style = exhibits.CurveStyle(summary.codecs)
            yield f"rd_{metric.name}", rate_distortion(found, metric, style)
    for metric in summary.metrics:
        if metric.name in curves.PRIMARY:
            if any(row.codec == curves.OURS and row.decode_ratio for row in summary.points):
                yield f"compute_{metric.name}", quality_compute(summary, metric)
            if metric.per_frame:
                yield f"frames_{metric.name}", by_frame(summary, cells, metric)
    if any(row.codec in (curves.OURS, curves.ABLATION) for row in summary.points):
        yield "layers", layers(summary)
    if front := tunes(summary.points, curves.PRIMARY):
        yield "front", front


def rate_distortion(
    found: Sequence[curves.Curve],
    metric: curves.MetricInfo,
    style: exhibits.CurveStyle,
    columns: int = exhibits.COLUMNS,
) -> Figure:
    """Points and lower hulls, rate on a log scale, a panel for each clip."""
    colour = style.colours(curve.name for curve in found)
    clips, title = (curve.clip for curve in found), f"Rate and quality: {metric.title}"
    figure, places = exhibits.panels(clips, title, columns)
    for clip, axis in places:
        mine = [curve for curve in found if curve.clip == clip]
        for curve in sorted(mine, key=lambda curve: [*colour].index(curve.name)):
            _hull(axis, curve, colour[curve.name], style.marker(curve.name))
        exhibits.log_scale(axis.xaxis)
        exhibits.label(axis, clip, "bits a pixel", metric.name)
    exhibits.legend(figure)
    return figure


def quality_compute(summary: Summary, metric: curves.MetricInfo) -> Figure:
    """Quality over decoding time; a line joins one stream decoded with more and more steps."""
    rows = [r for r in summary.points if r.decode_ratio and r.scores.get(metric.name) is not None]
    title = f"Quality and decoding time: {metric.title}"
    figure, places = exhibits.panels((row.clip for row in rows), title)
    style = exhibits.CurveStyle(summary.codecs)
    colour = style.colours(row.curve for row in rows)
    for clip, axis in places:
        mine = [row for row in rows if row.clip == clip and row.codec != curves.ABLATION]
        _join_streams(axis, [row for row in mine if row.codec == curves.OURS], metric)
        for name in style.in_order(row.curve for row in mine):
            dots = [(r.decode_ratio, r.scores[metric.name]) for r in mine if r.curve == name]
            axis.scatter(
                *_columns(dots),
                s=16,
                color=colour[name],
                marker=style.marker(name),
                label=name,
                alpha=1 if name.startswith(curves.OURS) else 0.45,
                linewidths=0,
            )
        exhibits.log_scale(axis.xaxis)
        exhibits.label(axis, clip, _TIME, metric.name)
    exhibits.legend(figure)
    return figure


def _join_streams(axis: Axes, rows: Sequence[curves.PointRow], metric: curves.MetricInfo) -> None:
    for key in dict.fromkeys(row.key for row in rows):
        stream = [row for row in rows if row.key == key]
        dots = sorted((row.decode_ratio, row.scores[metric.name]) for row in stream)
        axis.plot(*_columns(dots), color="#80808090", linewidth=1, zorder=1)
        _annotate(axis, f"{stream[0].bpp:.4f} bpp", dots[-1])


def layers(summary: Summary) -> Figure:
    """Bits by layer of each of our streams: a bar as long as its bits per pixel, in parts."""
    ours = (row for row in summary.points if row.codec in (curves.OURS, curves.ABLATION))
    rows = list({row.key: row for row in ours}.values())
    names = curves.layers_of(rows)
    figure = exhibits.new_figure("Bits by layer", 0.19 * len(rows) + 0.9)
    axis = exhibits.plain(figure.subplots())
    short = curves.short_labels(rows)
    labels = [f"{row.clip}, {short[row.key]}" for row in rows]
    start = [0.0] * len(rows)
    for index, name in enumerate(names):
        width = [row.bpp * row.ledger.get(name, 0) / row.bits for row in rows]
        shade = _LAYER_COLOURS[index % len(_LAYER_COLOURS)]
        axis.barh(range(len(rows)), width, left=start, height=0.72, color=shade, label=name)
        start = [a + b for a, b in zip(start, width, strict=True)]
    axis.set_axisbelow(True)
    axis.set_yticks(range(len(rows)), labels, fontsize=6.5)
    axis.invert_yaxis()
    exhibits.label(axis, "", "bits a pixel", "")
    exhibits.legend(figure)
    return figure


def by_frame(summary: Summary, cells: Sequence[CellRecord], metric: curves.MetricInfo) -> Figure:
    """The metric frame by frame, of every codec's point nearest in rate to one of ours, if near."""
    chosen = exhibits.near_rate(summary, cells, within=_NEAR)
    figure, places = exhibits.panels(chosen, f"Frame by frame, near one rate: {metric.title}")
    style = exhibits.CurveStyle(summary.codecs)
    colour = style.colours(one.curve for ones in chosen.values() for one in ones)
    for clip, axis in places:
        for one in sorted(chosen[clip], key=lambda one: [*colour].index(one.curve)):
            if pairs := one.measured(metric.name, summary.stride):
                _annotate(axis, f"{one.cell.bpp:.4f} bpp", pairs[-1])
                wide = 1.8 if one.cell.codec == curves.OURS else 1.1
                axis.plot(*_columns(pairs), color=colour[one.curve], lw=wide, label=one.curve)
        exhibits.label(axis, clip, "frame", metric.name)
    exhibits.legend(figure)
    return figure


def _annotate(axis: Axes, text: str, place: tuple[Any, Any]) -> None:
    axis.annotate(text, place, fontsize=6, color=exhibits.INK, ha="right", va="bottom")


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _hull(axis: Axes, curve: curves.Curve, colour: str, marker: str) -> None:
    own = curve.codec == curves.OURS
    dots = [(point.bpp, point.value) for point in curve.points]
    axis.scatter(*_columns(dots), s=9, color=colour, alpha=0.4, marker=marker, linewidths=0)
    line = [(bpp, curves.distance(far, curve.higher_is_better)) for bpp, far in curve.hull]
    look = {"lw": 2, "ms": 4, "zorder": 3} if own else {"lw": 1.2, "ms": 3, "zorder": 2}
    axis.plot(*_columns(line), color=colour, marker=marker, label=curve.name, **look)
