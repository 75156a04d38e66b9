"""What is shown of each clip: the source and each codec near one rate, worst frames first.

The pictures are decoded again from the run's streams, whose hashes must be those of the record.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from pathlib import Path

from gsvc.codec.errors import GsvcError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.report.choice import Choice
from gsvc.eval.report.decoding import decoded, source_of
from gsvc.eval.report.style import CurveStyle
from gsvc.eval.summary.recorded import MetricInfo
from gsvc.eval.summary.summarise import Summary

SOURCE = "source"
_WORST = 3


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
    frame_rate: Fraction
    panes: list[Pane]
    """The source first."""
    judged: str
    """The version whose worst frames are shown."""
    worst: list[tuple[int, float]]
    """Frames of `judged` and their values, by falling distance."""
    troubles: list[str]
    """What could not be shown, and why."""


def exhibits(
    folder: Path,
    summary: Summary,
    chosen: Mapping[str, Sequence[Choice]],
    asked: Sequence[str] = (),
    most_seconds: float = inf,
) -> Iterator[Exhibit]:
    """One clip after the other, the one with the worst frame first, each loaded in its turn.

    `chosen`: what to show, by clip label.
    `asked`: names or folders of clips that are in no known set.
    `most_seconds`: versions whose decoding took longer in the run are only named.
    """
    metric = next(iter(summary.metrics), None)
    rank = CurveStyle(summary.codecs).rank
    quick: dict[str, list[Choice]] = {}
    for clip, ones in chosen.items():
        if affordable := [one for one in ones if one.decode.seconds <= most_seconds]:
            quick[clip] = sorted(affordable, key=lambda one: rank(one.curve))
    worst = {clip: _worst(ones, metric, summary.stride) for clip, ones in quick.items()}
    sign = 1 if metric and metric.higher_is_better else -1
    for clip in sorted(worst, key=lambda clip: sign * worst[clip][0][1] if worst[clip] else 0.0):
        exhibit = _exhibit(folder, clip, quick[clip], metric, asked)
        exhibit.worst.extend(worst[clip][:_WORST])
        exhibit.troubles.extend(
            f"{one.curve} is not shown: decoding it again takes {one.decode.seconds:.0f} s"
            for one in chosen[clip]
            if one.decode.seconds > most_seconds
        )
        yield exhibit


def _exhibit(
    folder: Path,
    clip: str,
    choices: Sequence[Choice],
    metric: MetricInfo | None,
    asked: Sequence[str],
) -> Exhibit:
    """The source and `choices`; the last of these, ours with the most steps, is judged."""
    troubles: list[str] = []
    panes: list[Pane] = []
    first = choices[0].cell
    try:
        source = source_of(first, asked)
        panes.append(Pane(SOURCE, f"{source.format.width}x{source.format.height}", source.frames))
        for choice in choices:
            try:
                panes.append(_pane(folder, choice, source, metric, troubles))
            except GsvcError as error:
                troubles.append(f"{choice.curve} is not shown: {error}")
    except GsvcError as error:
        troubles.append(f"not shown: {error}")
    return Exhibit(clip, Fraction(first.frame_rate), panes, choices[-1].curve, [], troubles)


def _pane(
    folder: Path, choice: Choice, source: TestClip, metric: MetricInfo | None, troubles: list[str]
) -> Pane:
    cell = choice.cell
    frames, trouble = decoded(folder, choice, source)
    if trouble:
        troubles.append(trouble)
    scores = choice.decode.scores.get(metric.name) if metric else None
    facts = f"{cell.bpp:.5f} bpp, {cell.bitrate / 1000:.1f} kbit/s"
    if metric and scores and scores.mean is not None:
        facts += f", {metric.name} {scores.mean:.4f}"
    return Pane(choice.curve, facts, frames)


def _worst(
    choices: Sequence[Choice], metric: MetricInfo | None, stride: int
) -> list[tuple[int, float]]:
    """Measured frames and values of the judged version, the worst first."""
    if metric is None or not metric.per_frame:
        return []
    pairs = choices[-1].measured(metric.name, stride)
    return sorted(pairs, key=lambda pair: pair[1], reverse=not metric.higher_is_better)
