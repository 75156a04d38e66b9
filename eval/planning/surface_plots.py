"""The surface in pictures: contours, iso-quality curves, and what memory saves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gsvc.eval.planning.surface import JUDGES, Point, clips_of, dials, surface
from gsvc.eval.report.style import INK, label, legend, log_scale, new_figure, plain
from gsvc.eval.summary.frontier import PUBLISHED, frontier, targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RATES, _COMPUTES = 40, 40
_BITS, _COMPUTE = "bits per pixel", "decoding time, multiples of plain decoding"


def contours(points: Sequence[Point]) -> "Figure":
    """Quality over bits and computation, a mean over clips; the ways that were measured as lines.

    Raises MissingDependencyError without matplotlib.
    """
    figure = new_figure("Quality over bits and computation, mean of clips", 3.2, 2)
    rates, computes = _axes(points)
    for axis, judge in zip(figure.subplots(1, 2), JUDGES, strict=True):
        plain(axis)
        grid = np.ma.masked_invalid(surface(points, judge, rates, computes))
        if grid.count():
            shown = axis.contourf(rates, computes, grid, 12, cmap="viridis", alpha=0.85)
            lines = axis.contour(rates, computes, grid, 12, colors="white", linewidths=0.5)
            axis.clabel(lines, fontsize=6)
            figure.colorbar(shown, ax=axis).ax.tick_params(labelsize=7, colors=INK)
        for compute in _dial_computes(points):
            axis.axhline(compute, color=INK, linewidth=0.6, linestyle=":")
        log_scale(axis.xaxis)
        log_scale(axis.yaxis)
        label(axis, JUDGES[judge], _BITS, _COMPUTE)
    return figure


def iso_quality(points: Sequence[Point]) -> "Figure":
    """The bits that a quality takes over computation, each in proportion to plain decoding's.

    Beside it the published illustration, 100-fold computation for a quarter of the bits.
    """
    figure = new_figure("Bits at one quality over computation", 3.2, 2)
    for axis, judge in zip(figure.subplots(1, 2), JUDGES, strict=True):
        plain(axis)
        for clip in clips_of(points):
            ways = dials(points, clip, judge)
            goals = targets(ways)
            found = frontier(ways, goals[1]) if goals else []
            reached = [(point.compute, point.bpp) for point in found if point.bpp]
            if reached:
                first = reached[0][1]
                across, up = [c for c, _ in reached], [bpp / first for _, bpp in reached]
                axis.plot(across, up, marker="o", markersize=3, linewidth=1.2, label=clip)
        most = np.array([1.0, 100.0])
        axis.plot(most, most**-PUBLISHED.exponent, color=INK, linestyle="--", linewidth=1,
                  label="published: 100-fold computation, a quarter of the bits")  # fmt: skip
        log_scale(axis.xaxis)
        log_scale(axis.yaxis)
        label(axis, JUDGES[judge], _COMPUTE, "bits, of plain decoding's")
    legend(figure)
    return figure


def memory(curve: Sequence[tuple[int, float]]) -> "Figure":
    """h(M): the share of steps that a cache saves, over the memory that it may take."""
    figure = new_figure("h(M): what memory saves of a diffusion loop", 2.8, 1)
    axis = plain(figure.subplots())
    axis.plot([size / 1e6 for size, _ in curve], [100 * share for _, share in curve],
              marker="o", markersize=3)  # fmt: skip
    label(axis, "", "MB of latents kept", "% of steps saved")
    return figure


def _axes(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Rates and computations that all clips have."""
    low = max(min(p.bpp for p in points if p.clip == clip) for clip in clips_of(points))
    high = min(max(p.bpp for p in points if p.clip == clip) for clip in clips_of(points))
    most = max(_dial_computes(points))
    return (
        [float(rate) for rate in np.geomspace(low, max(high, 1.01 * low), _RATES)],
        [float(compute) for compute in np.geomspace(1, max(1.5, 1.2 * most), _COMPUTES)],
    )


def _dial_computes(points: Sequence[Point]) -> list[float]:
    """Of each way, a mean over clips."""
    found: dict[str, list[float]] = {}
    for clip in clips_of(points):
        for dial in dials(points, clip, "jod"):
            found.setdefault(dial.name, []).append(dial.compute)
    return [float(np.exp(np.mean(np.log(each)))) for each in found.values()]
