"""The headline: the worse of the judges' pooled BD-rates against SVT-AV1's hull.

One judge alone can be pleased by what nobody wants to look at: a slideshow pleases judges of single
frames, blur pleases judges of motion. So every curve has the number of the judge that likes it
least, and the floors stand beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gsvc.eval.summary.bootstrap import Pooled
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.duels import PooledDuel
from gsvc.eval.summary.recorded import PRIMARY, MetricInfo
from gsvc.eval.summary.troubles import Unmeasured

HEADLINE_ANCHOR = "svtav1"
FLOORS = ("hold", "motion")


@dataclass(frozen=True)
class HeadlineRow:
    """One curve against the anchor's hull."""

    curve: str
    rates: dict[str, Pooled | None]
    """Pooled BD-rates in per cent by judge; None where no clip has one."""
    worse: float | None
    """The greatest of the means; None unless every judge has one."""
    judge: str
    """Whose it is."""


@dataclass(frozen=True)
class Headline:
    """The headline of a run."""

    anchor: str
    missing: dict[str, str]
    """Judges without any number in this run, and why."""
    rows: list[HeadlineRow]
    """Ours, the floors, then the others."""


def headline(
    pooled: Sequence[PooledDuel],
    metrics: Sequence[MetricInfo],
    unmeasured: Sequence[Unmeasured],
    not_run: Mapping[str, str],
) -> Headline:
    """From the duels pooled over clips. `not_run`: reasons by name, such as "metric cvvdp"."""
    measured = {metric.name for metric in metrics if metric.version}
    missing = {
        judge: _why(judge, unmeasured, not_run) for judge in PRIMARY if judge not in measured
    }
    rates: dict[str, dict[str, Pooled | None]] = {}
    for one in pooled:
        if one.anchor == HEADLINE_ANCHOR and one.metric in PRIMARY:
            rates.setdefault(one.test, {})[one.metric] = one.pchip
    return Headline(
        HEADLINE_ANCHOR, missing, [_row(curve, rates[curve]) for curve in sorted(rates, key=_place)]
    )


def _row(curve: str, rates: dict[str, Pooled | None]) -> HeadlineRow:
    means = {judge: one.mean for judge, one in rates.items() if one is not None}
    if set(means) != set(PRIMARY):
        return HeadlineRow(curve, rates, None, "")
    judge = max(means, key=lambda name: means[name])
    return HeadlineRow(curve, rates, means[judge], judge)


def _place(curve: str) -> tuple[bool, bool]:
    codec = curve.split(",")[0]
    return codec != OURS, codec not in FLOORS


def _why(judge: str, unmeasured: Sequence[Unmeasured], not_run: Mapping[str, str]) -> str:
    reasons: Iterator[str] = (one.reason for one in unmeasured if one.metric == judge)
    return not_run.get(f"metric {judge}") or next(reasons, f"not asked for: add --metric {judge}")
