"""A table of text, and how numbers are written in one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gsvc.datasets.hub import RANDOM
from gsvc.eval.summary.bootstrap import Pooled
from gsvc.eval.summary.recorded import PRIMARY, MetricInfo
from gsvc.eval.summary.summarise import Summary

NONE = "-"


@dataclass(frozen=True)
class Table:
    """A titled table of text."""

    title: str
    note: str
    """What the numbers are, in full sentences."""
    header: Sequence[str]
    rows: Sequence[Sequence[str]] = field(repr=False)


def protocol(summary: Summary) -> str:
    """One sentence on what every number of the run stands on."""
    counts = sorted(set(summary.frames.values()))
    frames = (
        f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "no"
    )
    measured = (
        "every frame" if summary.stride == 1 else f"one frame in {summary.stride} from the first"
    )
    return (
        f"{len(summary.frames)} clips, {frames} frames coded of each, quality measured on "
        f"{measured}; rates are those of the elementary stream, or of the whole .gsv file without "
        f"audio.{_warning(summary)}"
    )


def has_random_weights(summary: Summary) -> bool:
    """Whether a codec ran with a pretrained model's form, and not with its weights."""
    return any(RANDOM in version for version in summary.versions.values())


def _warning(summary: Summary) -> str:
    if not has_random_weights(summary):
        return ""
    return f" {RANDOM.upper()}: what is restored here says nothing about the model."


def primary(summary: Summary) -> list[MetricInfo]:
    """The primary metrics of the run; without them, the first that compares curves."""
    found = [metric for metric in summary.metrics if metric.name in PRIMARY]
    compared = {one.metric for one in summary.pooled}
    counted = [metric for metric in summary.metrics if metric.name in compared]
    return found or counted[:1] or summary.metrics[:1]


def basis(summary: Summary, metric: MetricInfo) -> str:
    """What a metric's numbers stand on, for a table's note."""
    return f"{metric.title} ({metric.version or 'never measured'}). {protocol(summary)}"


def pooled_text(pooled: Pooled | None) -> str:
    """ "-12.3 [-20.0, -4.1] (5)": mean, interval where there is one, number of clips."""
    if pooled is None:
        return "none (0)"
    bounds = f" [{percent(pooled.low)}, {percent(pooled.high)}]" if pooled.low is not None else ""
    return f"{percent(pooled.mean)}{bounds} ({pooled.clips})"


def percent(value: float | None) -> str:
    """ "+12.3"."""
    return NONE if value is None else f"{value:+.1f}"


def multiple(value: float | None) -> str:
    """ "1.23x"."""
    return NONE if value is None else f"{value:.2f}x"


def number(value: float | None) -> str:
    """A metric's value: four decimals, two from 10 on."""
    return NONE if value is None else f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def signed(value: float | None) -> str:
    """A difference of a metric's values."""
    return NONE if value is None else f"{value:+.4f}"


def rate(value: float) -> str:
    """Bits per pixel."""
    return f"{value:.5f}"
