"""What is shown of each clip: the source and each codec near one rate, worst frames first.

The pictures are decoded again from the run's streams, whose hashes must be those of the record.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsvc.codec.errors import GsvcError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.report.choice import Choice
from gsvc.eval.report.decoding import decoded, source_of
from gsvc.eval.report.style import CurveStyle
from gsvc.eval.summary.recorded import MetricInfo
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import number, primary

SOURCE = "source"


@dataclass(frozen=True)
class Pane:
    """One version of a clip."""

    name: str
    facts: str
    """For its caption: rate, quality."""
    frames: Sequence[Picture] = field(repr=False)
    """RGB uint8 (H, W, 3)."""


@dataclass(frozen=True)
class Exhibit:
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
    chosen: Mapping[str, Sequence[Choice]],
    places: Sequence[str] = (),
) -> Iterator[Exhibit]:
    """One clip after the other, the one with the worst frame first, each loaded in its turn.

    `chosen`: what to show, by clip label.
    `places`: files and folders with clips that are in no known set.
    """
    metric = next((one for one in summary.metrics if one.per_frame), None)
    sign = 1 if metric and metric.higher_is_better else -1
    rank = CurveStyle(summary.codecs).rank
    ordered = {clip: sorted(ones, key=lambda o: rank(o.curve)) for clip, ones in chosen.items()}
    worst = {clip: _worst(ones[-1], metric, summary.stride) for clip, ones in ordered.items()}
    for clip in sorted(worst, key=lambda clip: sign * worst[clip][1]):
        yield load_exhibit(folder, clip, ordered[clip], summary, places, worst[clip][0])


def load_exhibit(
    folder: Path,
    clip: str,
    choices: Sequence[Choice],
    summary: Summary,
    places: Sequence[str] = (),
    worst: int = 0,
) -> Exhibit:
    """The source and `choices` decoded; what goes wrong is in its `troubles`."""
    troubles: list[str] = []
    panes: list[Pane] = []
    source = None
    try:
        source = source_of(choices[0].cell, places)
        panes.append(Pane(SOURCE, facts_of(choices[0], None), source.frames))
    except GsvcError as error:
        troubles.append(f"not shown: {error}")
    for choice in choices if source else ():
        assert source is not None
        try:
            frames, trouble = decoded(folder, choice, source)
            panes.append(Pane(choice.curve, facts_of(choice, summary), frames))
            troubles += [trouble] * bool(trouble)
        except GsvcError as error:
            troubles.append(f"{choice.curve} is not shown: {error}")
    return Exhibit(clip, source, panes, worst, troubles)


def facts_of(choice: Choice, summary: Summary | None) -> str:
    """Rate and quality of a version, by the primary metrics; without a summary the size alone."""
    cell = choice.cell
    if summary is None:
        return f"{cell.width}x{cell.height}, {cell.frames} frames"
    parts = [f"{cell.bpp:.5f} bpp", f"{cell.bitrate / 1000:.1f} kbit/s"]
    for metric in primary(summary):
        scores = choice.decode.scores.get(metric.name)
        if scores and scores.mean is not None:
            parts.append(f"{metric.name} {number(scores.mean)}")
    return ", ".join(parts)


def _worst(choice: Choice, metric: MetricInfo | None, stride: int) -> tuple[int, float]:
    """The worst measured frame and its value."""
    if metric is None or not (pairs := choice.measured(metric.name, stride)):
        return 0, 0.0
    sign = 1 if metric.higher_is_better else -1
    return min(pairs, key=lambda pair: sign * pair[1])
