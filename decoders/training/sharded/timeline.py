"""A picture of who worked and who waited: the bubbles of a pipeline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsvc.codec.output import atomic_output

_COLOURS = {"makes": "#4477aa", "trains": "#228833", "waits": "#ee8866"}
_WORK = "makes", "trains"
_MICRO = 1e-6
_INCHES, _A_ROW = 12.0, 0.34


def draw_timeline(events: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw spans, a row for each process, as a PNG.

    `events`: as of `Producers.events`; the gaps between spans are when nobody asked for anything.
    What stands at a row's name is the share of the time in which it worked.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    began = min(event["ts"] for event in events)
    seconds = _MICRO * (max(event["ts"] + event["dur"] for event in events) - began)
    rows = sorted({str(event["tid"]) for event in events}, key=_by_number)
    figure = Figure((_INCHES, 1.4 + _A_ROW * len(rows)), layout="constrained")
    axes = figure.subplots()
    for number, who in enumerate(rows):
        own = [event for event in events if event["tid"] == who]
        for what, colour in _COLOURS.items():
            spans = [
                (_MICRO * (event["ts"] - began), _MICRO * event["dur"])
                for event in own
                if event["name"].startswith(what)
            ]
            axes.broken_barh(spans, (number - 0.4, 0.8), color=colour, edgecolor="white", lw=0.3)
    names = [f"{who}, {share_at_work(events, who, seconds):.0%}" for who in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_xlim(0, seconds)
    axes.set_xlabel("seconds")
    patches = [Patch(color=colour, label=what) for what, colour in _COLOURS.items()]
    figure.legend(handles=patches, loc="outside upper right", ncols=len(patches), frameon=False)
    with atomic_output(path, overwrite=True) as part:
        figure.savefig(part, format="png", dpi=110)


def share_at_work(events: Sequence[Mapping[str, Any]], who: str, seconds: float) -> float:
    """Of the time, 0 to 1: spans of work, not of waiting."""
    spent = sum(x["dur"] for x in events if x["tid"] == who and x["name"].startswith(_WORK))
    return float(_MICRO * spent / seconds) if seconds else 0.0


def _by_number(who: str) -> tuple[bool, int]:
    """Producers by their number, then who trains."""
    number = who.rpartition(" ")[2]
    return (not number.isdecimal(), int(number) if number.isdecimal() else 0)
