"""Draws who worked and who waited in a run with producers: the bubbles of the pipeline."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.media.output import atomic_output
from gsvc.decoders.training.feeds import MAKES, TRAINS, WAITS, Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IDLE = "idle"
_COLOURS = {
    MAKES: "#4477aa",
    TRAINS: "#228833",
    WAITS: "#ee6677",
    _IDLE: "#eeeeee",
}
_MEANS = {
    MAKES: "decodes, encodes, reads",
    TRAINS: "trains",
    WAITS: "has nothing to train on",
    _IDLE: "has nothing to make",
}
_INCHES, _A_ROW, _A_CURVE, _REST = 12.0, 0.36, 1.1, 0.75
_LEAST_GAP = 0.05
"""Seconds: shorter pauses of a producer are those between one piece and the next."""


def draw_timeline(panels: Mapping[str, Sequence[Span]], path: Path) -> None:
    """Draw spans as a PNG: a panel for each title, in it a row for each process.

    Each panel begins at its first span; all have one scale. Beside a process's name are the shares
    of the time in which it did what. Where pieces are waited for, a curve below tells how many were
    made and not yet taken.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    panels = {title: [*spans, *_held_back(spans)] for title, spans in panels.items()}
    rows = [len(_names(spans)) for spans in panels.values()]
    curves = [any(span.what == WAITS for span in spans) for spans in panels.values()]
    heights = [x for n, curve in zip(rows, curves, strict=True) for x in (n, 3 * curve) if x]
    inches = _A_ROW * sum(rows) + _A_CURVE * sum(curves) + _REST * (len(rows) + 1)
    figure = Figure((_INCHES, inches), layout="constrained")
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    left = list(axes[:, 0])
    for (title, spans), curve in zip(panels.items(), curves, strict=True):
        _draw_rows(left.pop(0), title, spans)
        if curve:
            _draw_stock(left.pop(0), spans)
    axes[-1, 0].set_xlabel("seconds")
    axes[-1, 0].set_xlim(0, max(map(_seconds, panels.values())))
    used = {span.what for spans in panels.values() for span in spans}
    patches = [
        Patch(facecolor=colour, label=_MEANS[what], edgecolor="#999999", lw=0.4)
        for what, colour in _COLOURS.items()
        if what in used
    ]
    figure.legend(handles=patches, loc="outside upper right", ncols=len(patches), frameon=False)
    with atomic_output(path, overwrite=True) as part:
        figure.savefig(part, format="png", dpi=110)


def _draw_rows(axes: "Axes", title: str, spans: Sequence[Span]) -> None:
    began, names = _begun(spans), _names(spans)
    for row, who in enumerate(names):
        own = [span for span in spans if span.who == who]
        for what, colour in _COLOURS.items():
            bars = [(x.begun - began, x.ended - x.begun) for x in own if x.what == what]
            edge = "white" if len(bars) < 100 else "none"
            axes.broken_barh(bars, (row - 0.4, 0.8), color=colour, edgecolor=edge, lw=0.3)
    axes.set_yticks(range(len(names)), [_told(spans, who) for who in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title(title, loc="left", fontsize="medium")


def _draw_stock(axes: "Axes", spans: Sequence[Span]) -> None:
    """How many pieces lay ready."""
    began = _begun(spans)
    steps = [(span.ended - began, 1) for span in spans if span.what == MAKES]
    steps += [(span.ended - began, -1) for span in spans if span.what == WAITS]
    times, counts, count = [0.0], [0], 0
    for moment, change in sorted(steps):
        count += change
        times.append(moment)
        counts.append(max(0, count))
    axes.fill_between(times, counts, step="post", color=_COLOURS[MAKES], alpha=0.4, lw=0)
    axes.set_ylabel("ready", rotation=0, ha="right", va="center")
    axes.set_ylim(0)


def _held_back(spans: Sequence[Span]) -> Iterator[Span]:
    """When producers had nothing to do: between what they did, and at the end."""
    end = max(span.ended for span in spans)
    for who in _names(spans):
        own = sorted((x.begun, x.ended, x.what) for x in spans if x.who == who)
        kinds = {what for _, _, what in own}
        if MAKES not in kinds or TRAINS in kinds:
            continue
        starts = [*(begun for begun, _, _ in own[1:]), end]
        for (_, begun, _), ended in zip(own, starts, strict=False):
            if ended - begun > _LEAST_GAP:
                yield Span(who, _IDLE, 0, begun, ended)


def _told(spans: Sequence[Span], who: str) -> str:
    """A process's name, and shares of the time."""
    own = [(what, share_of(spans, who, what)) for what in _COLOURS]
    return f"{who}: " + ", ".join(f"{what} {share:.0%}" for what, share in own if share >= 0.005)


def share_of(spans: Sequence[Span], who: str, what: str) -> float:
    """Of the time from the first span to the last, 0 to 1."""
    spent = sum(x.ended - x.begun for x in spans if x.who == who and x.what == what)
    return spent / max(_seconds(spans), 1e-9)


def _begun(spans: Sequence[Span]) -> float:
    return min(span.begun for span in spans)


def _seconds(spans: Sequence[Span]) -> float:
    return max(span.ended for span in spans) - _begun(spans)


def _names(spans: Sequence[Span]) -> list[str]:
    """Producers by their number, then who trains."""

    def by_number(who: str) -> tuple[bool, int]:
        number = who.rpartition(" ")[2]
        return (not number.isdecimal(), int(number) if number.isdecimal() else 0)

    return sorted({span.who for span in spans}, key=by_number)
