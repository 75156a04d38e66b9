"""Results of a benchmark of analysis: points as CSV, tables with BD-rates over accuracy, plots."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gsvc.eval.bench.analysis.accuracy import ACCURACIES
from gsvc.eval.bench.analysis.rate_accuracy import FROM_STREAM, SOURCE, AccuracyPoint
from gsvc.eval.late_loading import CodecFacts
from gsvc.eval.layout import csv_text, markdown, write_bytes, write_text
from gsvc.eval.report.style import COLUMNS, INK, CurveStyle, image, label, legend, log_scale, panels
from gsvc.eval.summary.bd_rate import BdRate, Pooled, RatePoint, bd_rate, lower_hull, pooled_rate
from gsvc.eval.summary.rate_tables import NONE, number, pooled_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def curves(points: Iterable[AccuracyPoint]) -> list[str]:
    """The curves, each once, in the order of their first point; the source has none."""
    return list(dict.fromkeys(point.curve for point in points if point.curve != SOURCE))


def hull(points: Iterable[AccuracyPoint], clip: str, curve: str, accuracy: str) -> list[RatePoint]:
    """The curve's best: bits per second and 1 - accuracy, as `lower_hull`."""
    return lower_hull(
        [
            (point.bits_per_second, 1 - value)
            for point in points
            if (point.clip, point.curve) == (clip, curve)
            and (value := point.accuracies[accuracy]) is not None
        ]
    )


def differences(
    points: Sequence[AccuracyPoint], curve: str, anchor: str, accuracy: str
) -> dict[str, BdRate]:
    """The BD-rate of a curve against an anchor by clip."""
    clips = dict.fromkeys(point.clip for point in points)
    return {
        clip: bd_rate(*(hull(points, clip, name, accuracy) for name in (anchor, curve)))
        for clip in clips
    }


def pooled(found: dict[str, BdRate]) -> Pooled | None:
    """The mean over the clips that have one."""
    return pooled_rate([one.pchip for one in found.values() if one.pchip is not None])


def rate_for(line: Sequence[RatePoint], score: float) -> tuple[float, str]:
    """Bits per second at which a hull comes to an accuracy, and "" where it does.

    Between two points the logarithm of the rate is linear in the accuracy. Where even its lowest
    rate is better, that one and "<"; where its highest is still worse, that one and ">".
    """
    points = [(rate, 1 - far) for rate, far in sorted(line)]
    if points[0][1] > score:
        return points[0][0], "<"
    if points[-1][1] < score:
        return points[-1][0], ">"
    rates, scores = zip(*points, strict=True)
    return float(np.exp(np.interp(score, scores, np.log(rates)))), ""


POINTS, TABLES = "points.csv", "analysis.md"
_COLUMNS = ["clip", "curve", "settings", "bytes", "bits_per_second", "seconds", "truth"]
_LOWEST = -0.25
"""Shown in plots: MODA and MOTA may fall far below."""
_PSEUDO_NOTE = (
    "pseudo-truth: what the detector finds in the source, each frame for itself; the source's own "
    "point is what following makes of that"
)


def write_points(folder: Path, points: Sequence[AccuracyPoint]) -> None:
    """Replace `points.csv`. Raises OutputError."""
    rows = [[*_COLUMNS, *ACCURACIES]]
    for point in points:
        rate, seconds = f"{point.bits_per_second:.1f}", f"{point.seconds:.3f}"
        size = str(point.bytes)
        row = [point.clip, point.curve, point.settings, size, rate, seconds, _truth(point)]
        scores = (point.accuracies[name] for name in ACCURACIES)
        rows.append([*row, *("" if score is None else f"{score:.6f}" for score in scores)])
    write_text(folder / POINTS, csv_text(rows))


def tables(points: Sequence[AccuracyPoint], detector: str, anchors: Sequence[str]) -> str:
    """All points, and BD-rates of every curve against each anchor, as Markdown."""
    parts = [f"Detector: {detector}. Rates are those of whole streams."]
    if any(point.pseudo for point in points):
        parts.append(f"*{_PSEUDO_NOTE}.*")
    parts += ["## Points", markdown(*_point_table(points))]
    for accuracy, title in ACCURACIES.items():
        if any(point.accuracies[accuracy] is not None for point in points):
            parts += [f"## BD-rate over {title}, per cent of bits (clips)"]
            parts.append(markdown(*_bd_table(points, anchors, accuracy)))
            parts += [f"## Read from the stream: bits in per cent of others' at equal {title}"]
            parts.append(markdown(*_share_table(points, anchors, accuracy)))
    return "\n\n".join(parts) + "\n"


def write_plots(
    folder: Path, points: Sequence[AccuracyPoint], facts: Mapping[str, CodecFacts]
) -> None:
    """Draw `analysis-ACCURACY.svg` and .png. Raises OutputError, MissingDependencyError."""
    style = CurveStyle(facts)
    for accuracy, title in ACCURACIES.items():
        if all(point.accuracies[accuracy] is None for point in points):
            continue
        figure = _drawn(points, accuracy, title, style)
        for kind in ("svg", "png"):
            write_bytes(folder / f"analysis-{accuracy}.{kind}", image(figure, kind))


def _drawn(
    points: Sequence[AccuracyPoint], accuracy: str, title: str, style: CurveStyle
) -> "Figure":
    clips = list(dict.fromkeys(point.clip for point in points))
    names = curves(points)
    colours = style.colours(names)
    figure, places = panels(clips, f"{title} over rate", COLUMNS)
    for clip, axis in places:
        for name in style.in_order(names):
            line = hull(points, clip, name, accuracy)
            xs, ys = [rate / 1000 for rate, _ in line], [1 - far for _, far in line]
            axis.plot(xs, ys, label=name, color=colours[name], marker=style.marker(name), ms=4)
        for point in points:
            score = point.accuracies[accuracy]
            if (point.clip, point.curve) == (clip, SOURCE) and score is not None:
                axis.axhline(score, color=INK, lw=0.8, ls="--", label=SOURCE)
        axis.set_ylim(bottom=max(_LOWEST, axis.get_ylim()[0]))
        label(axis, clip, "kbit/s", title)
        log_scale(axis.xaxis)
    legend(figure)
    return figure


def _truth(point: AccuracyPoint) -> str:
    return "pseudo-truth" if point.pseudo else "truth"


def _point_table(points: Sequence[AccuracyPoint]) -> tuple[list[str], list[list[str]]]:
    measured = [name for name in ACCURACIES if any(p.accuracies[name] is not None for p in points)]
    titles = (ACCURACIES[name] for name in measured)
    header = ["clip", "curve", "settings", "kbit/s", "seconds", "against", *titles]
    rows = []
    for point in points:
        rate = NONE if point.curve == SOURCE else f"{point.bits_per_second / 1000:.2f}"
        row = [point.clip, point.curve, point.settings, rate, f"{point.seconds:.2f}", _truth(point)]
        rows.append([*row, *(number(point.accuracies[name]) for name in measured)])
    return header, rows


def _bd_table(
    points: Sequence[AccuracyPoint], anchors: Sequence[str], accuracy: str
) -> tuple[list[str], list[list[str]]]:
    rows = [
        [name, *(_difference(points, name, anchor, accuracy) for anchor in anchors)]
        for name in curves(points)
    ]
    return ["curve", *(f"against {anchor}" for anchor in anchors)], rows


def _difference(points: Sequence[AccuracyPoint], name: str, anchor: str, accuracy: str) -> str:
    if name == anchor:
        return NONE
    found = differences(points, name, anchor, accuracy)
    pool = pooled(found)
    return pooled_text(pool) if pool else min((one.note for one in found.values()), default=NONE)


def _share_table(
    points: Sequence[AccuracyPoint], anchors: Sequence[str], accuracy: str
) -> tuple[list[str], list[list[str]]]:
    """Each point that was read from a stream, beside what others take to be as accurate."""
    rows = []
    for point in points:
        score = point.accuracies[accuracy]
        if not point.curve.endswith(FROM_STREAM) or score is None:
            continue
        lines = (hull(points, point.clip, anchor, accuracy) for anchor in anchors)
        shares = [_share(point.bits_per_second, line, score) if line else NONE for line in lines]
        rate = f"{point.bits_per_second / 1000:.2f}"
        rows.append([point.clip, point.curve, point.settings, rate, number(score), *shares])
    title = ACCURACIES[accuracy]
    head = ["clip", "curve", "settings", "kbit/s", title, *(f"of {anchor}" for anchor in anchors)]
    return head, rows


def _share(rate: float, line: Sequence[RatePoint], score: float) -> str:
    """In per cent; "over" where the other is better at its lowest rate, "below" where it is worse
    at its highest."""
    other, side = rate_for(line, score)
    return {"": "", "<": "over ", ">": "below "}[side] + f"{100 * rate / other:.3g}"
