"""The plot of a study: scores with their intervals, a line a clip."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsvc.eval.report.style import INK, label, legend, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#dd3c2a", "#b59a5b", "#2f8f5b", "#8e5bd0", "#ee7d22", "#17a2b0")
_SPREAD = 0.6
"""Of the versions of one line, in lines."""


@dataclass(frozen=True)
class ScoreRow:
    """A version's score in a group of votes."""

    clip: str
    """Or all of them."""
    level: str
    """Of gsvc; "" for all levels."""
    version: str
    score: float
    """Log strength; the version at zero has 0."""
    low: float | None
    """Ends of the 95 % interval over voters; None for fewer than two."""
    high: float | None
    chosen: float
    """0 to 1: share of decided answers against the version at zero, by the score."""
    wins: int
    """Votes, against all other versions."""
    ties: int
    losses: int
    voters: int

    @property
    def label(self) -> str:
        """Of its group, for people."""
        return f"{self.clip}, level {self.level}" if self.level else self.clip


def forest(rows: Sequence[ScoreRow], zero: str) -> "Figure":
    """A line a group from the top down, a colour a version."""
    groups = list(dict.fromkeys(row.label for row in rows))
    versions = list(dict.fromkeys(row.version for row in rows))
    figure = new_figure("What people chose", 0.3 * len(groups) + 0.6)
    axis = plain(figure.subplots())
    for number, version in enumerate(versions):
        mine = [row for row in rows if row.version == version]
        shift = _SPREAD * ((number + 0.5) / len(versions) - 0.5)
        places = [groups.index(row.label) + shift for row in mine]
        colour = _COLOURS[number % len(_COLOURS)]
        ends = [(row.low, row.high) for row in mine]
        for place, (low, high) in zip(places, ends, strict=True):
            if low is not None and high is not None:
                axis.plot([low, high], [place, place], color=colour, lw=2, solid_capstyle="round")
        axis.plot([r.score for r in mine], places, "o", color=colour, ms=5, label=version)
    axis.axvline(0, color=INK, lw=1)
    axis.set_yticks(range(len(groups)), groups, fontsize=8)
    axis.set_ylim(len(groups) - 0.5, -0.5)
    label(axis, "", f"score; right of 0: chosen over {zero}", "")
    legend(figure)
    return figure
