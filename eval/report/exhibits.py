"""What is shown of each clip: the source and each codec near one rate, worst frames first.

The pictures are decoded again from the run's streams, whose hashes must be those of the record.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from pathlib import Path

from gsvc.codec.errors import GsvcError, InputError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip, frames_sha256
from gsvc.datasets.sets import SETS, find_clips
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.report.choice import Choice
from gsvc.eval.report.style import in_order
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.metrics import MetricInfo
from gsvc.eval.summary.summarise import Summary

SOURCE = "source"
_WORST = 3


@dataclass(frozen=True)
class Pane:
    """One version of a clip: `name` and `facts` for its caption, its pictures RGB uint8 (H, W, 3)."""

    name: str
    facts: str
    frames: Sequence[Picture] = field(repr=False)


@dataclass(frozen=True)
class Exhibit:
    """A clip with its versions, the source first; `worst` frames by falling distance, of `judged`.

    `troubles` say what could not be shown, and why.
    """

    clip: str
    frame_rate: Fraction
    panes: list[Pane]
    judged: str
    worst: list[tuple[int, float]]
    troubles: list[str]


def exhibits(
    folder: Path,
    summary: Summary,
    chosen: Mapping[str, Sequence[Choice]],
    asked: Sequence[str] = (),
    most_seconds: float = inf,
) -> Iterator[Exhibit]:
    """One clip after the other, in memory only while it is looked at, that with the worst frame first.

    `chosen`: what to show, by clip label; what took more than `most_seconds` to decode in the run is named only; `asked`:
    the names by which the run's clips were asked for, where they are of no known set.
    """
    affordable = {
        clip: [one for one in ones if one.decode.seconds <= most_seconds]
        for clip, ones in chosen.items()
    }
    metric = summary.metrics[0] if summary.metrics else None
    worst = {clip: _worst(choices, metric, summary) for clip, choices in affordable.items()}
    sign = 1 if metric and metric.higher_is_better else -1
    shown = [clip for clip, ones in affordable.items() if ones]
    for clip in sorted(shown, key=lambda clip: sign * worst[clip][0][1] if worst[clip] else 0.0):
        exhibit = _exhibit(folder, clip, affordable[clip], metric, asked)
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
    troubles: list[str] = []
    panes: list[Pane] = []
    first = choices[0].cell
    try:
        source = _source(first, asked)
        panes.append(Pane(SOURCE, f"{source.format.width}x{source.format.height}", source.frames))
        for name in in_order([choice.curve for choice in choices]):
            choice = next(choice for choice in choices if choice.curve == name)
            try:
                panes.append(_pane(folder, choice, source, metric, troubles))
            except GsvcError as error:
                troubles.append(f"{name} is not shown: {error}")
    except GsvcError as error:
        troubles.append(f"not shown: {error}")
    judged = _judged(choices)
    return Exhibit(
        clip,
        Fraction(first.frame_rate),
        panes,
        judged.curve if judged else "",
        [],
        troubles,
    )


def _source(cell: CellRecord, asked: Sequence[str]) -> TestClip:
    named = (one for one in find_clips([*asked, *SETS]) if one.name == cell.clip)
    if (found := next(named, None)) is None:
        raise InputError(f"{cell.clip} is in no set that is known here: bring the clip back")
    clip = found.load(cell.size, cell.frames)
    if clip.sha256 != cell.source_sha256:
        raise InputError(f"{cell.clip} is another clip now than the run measured: run it again")
    return clip


def _pane(
    folder: Path, choice: Choice, source: TestClip, metric: MetricInfo | None, troubles: list[str]
) -> Pane:
    from gsvc.eval.codecs import find_codec

    cell, decode = choice.cell, choice.decode
    data = _stream(folder, cell)
    codec = find_codec(cell.codec)
    frames = codec.decode(data, source.format, cell.settings, decode.way).frames
    if frames_sha256(frames) != decode.frames_sha256:
        troubles.append(f"{choice.curve} decodes here to other pictures than were measured")
    scores = decode.scores.get(metric.name) if metric else None
    facts = f"{cell.bpp:.5f} bpp, {cell.bitrate / 1000:.1f} kbit/s"
    if metric and scores and scores.mean is not None:
        facts += f", {metric.name} {scores.mean:.4f}"
    return Pane(choice.curve, facts, frames)


def _stream(folder: Path, cell: CellRecord) -> bytes:
    try:
        data = next((folder / "streams").glob(f"{cell.key}.*")).read_bytes()
    except (StopIteration, OSError) as error:
        raise InputError(f"the stream {cell.key} is missing: run the benchmark again") from error
    if hashlib.sha256(data).hexdigest() != cell.stream_sha256:
        raise InputError(f"the stream {cell.key} was changed: run the benchmark again")
    return data


def _judged(choices: Sequence[Choice]) -> Choice | None:
    """Ours, as decoded with the most steps; without ours, the last."""
    ours = [choice for choice in choices if choice.cell.codec == OURS]
    names = in_order([choice.curve for choice in ours or choices])
    return next((c for c in choices if names and c.curve == names[-1]), None)


def _worst(
    choices: Sequence[Choice], metric: MetricInfo | None, summary: Summary
) -> list[tuple[int, float]]:
    """Measured frames and values of the judged version, the worst first."""
    judged = _judged(choices)
    scores = judged.decode.scores.get(metric.name) if judged and metric else None
    if judged is None or metric is None or scores is None or not metric.per_frame:
        return []
    frames = range(0, judged.cell.frames, summary.stride)
    pairs = [(f, v) for f, v in zip(frames, scores.values, strict=False) if v is not None]
    return sorted(pairs, key=lambda pair: pair[1], reverse=not metric.higher_is_better)
