"""Which decoded clips stand side by side: one of each codec, near one rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log

from gsvc.eval.bench.record import CellRecord, DecodeRecord
from gsvc.eval.facts import CodecFacts
from gsvc.eval.summary.curves import ABLATION, OURS, by_curve, clip_label, distance
from gsvc.eval.summary.recorded import MetricInfo
from gsvc.eval.summary.slideshow import SLIDESHOW
from gsvc.eval.summary.summarise import Summary

BEST_KNOWN = "svtav1"
_USUAL_LEVEL = 1


@dataclass(frozen=True)
class Choice:
    """A decoded cell, and the name of its curve."""

    curve: str
    cell: CellRecord
    decode: DecodeRecord

    def measured(self, metric: str, stride: int) -> list[tuple[int, float]]:
        """Frames and their values in a metric, where it has any."""
        scores = self.decode.scores.get(metric)
        frames = range(0, self.cell.frames, stride)
        pairs = zip(frames, scores.values if scores else (), strict=False)
        return [(frame, value) for frame, value in pairs if value is not None]


def near_rate(
    summary: Summary, cells: Sequence[CellRecord], level: int = _USUAL_LEVEL
) -> dict[str, list[Choice]]:
    """By clip label: each curve's cell nearest in log rate, of equals the better one.

    The rate is that of our stream at `level`; without one, the median of ours; without ours, of
    all.
    """
    metric = next(iter(summary.metrics), None)
    clips: dict[str, list[CellRecord]] = {}
    for cell in cells:
        if cell.bits and cell.decodes and cell.codec != ABLATION:
            clips.setdefault(clip_label(cell), []).append(cell)
    return {clip: _choose(mine, metric, level) for clip, mine in clips.items()}


def few(choices: Sequence[Choice], summary: Summary) -> list[Choice]:
    """Of one clip's choices: AV1, the slideshow, ours of least and of most compute.

    AV1 is whichever codec of its family is nearest in bits to ours, another anchor without it.
    Without ours: an anchor and the others.
    """
    metric = next(iter(summary.metrics), None)
    ours = [one for one in choices if one.cell.codec == OURS]
    ours.sort(key=lambda one: one.decode.flops_per_pixel or 0.0)
    bits = ours[-1].cell.bits if ours else 0
    anchors = _opponents(choices, summary.codecs)
    anchors.sort(key=lambda one: (_apart(one.cell.bits, bits), _distance(one.decode, metric)))
    if not ours:
        return [*anchors[:1], *(one for one in choices if one not in anchors)]
    floors = [one for one in choices if one.cell.codec == SLIDESHOW]
    return [*anchors[:1], *floors, *ours[:1], *ours[1:][-1:]]


def _opponents(choices: Sequence[Choice], codecs: Mapping[str, CodecFacts]) -> list[Choice]:
    """Those of AV1's family; without any, all anchors."""
    family = codecs[BEST_KNOWN].family if BEST_KNOWN in codecs else ""
    found = [one for one in choices if family and codecs[one.cell.codec].family == family]
    return found or [one for one in choices if codecs[one.cell.codec].is_anchor]


def _apart(rate: float, other: float) -> float:
    """The log ratio, coarsely: small differences are none. 0 where one is 0."""
    return round(abs(log(rate / other)), 1) if rate and other else 0.0


def _choose(cells: Sequence[CellRecord], metric: MetricInfo | None, level: int) -> list[Choice]:
    rate = _target(cells, level)
    found: dict[str, tuple[tuple[float, float], Choice]] = {}
    for cell in cells:
        for name, decodes in by_curve(cell).items():
            one = Choice(name, cell, decodes[0])
            rank = _apart(cell.bpp, rate), _distance(one.decode, metric)
            if name not in found or rank < found[name][0]:
                found[name] = rank, one
    return [choice for _, choice in found.values()]


def _target(cells: Sequence[CellRecord], level: int) -> float:
    ours = [cell for cell in cells if cell.codec == OURS]
    wanted = [cell for cell in ours if cell.settings.get("level") == level]
    rates = sorted(cell.bpp for cell in wanted or ours or cells)
    return rates[len(rates) // 2]


def _distance(decode: DecodeRecord, metric: MetricInfo | None) -> float:
    """In the metric; clips without it rank last."""
    scores = decode.scores.get(metric.name) if metric else None
    if metric is None or scores is None or scores.mean is None:
        return inf
    return distance(scores.mean, metric.higher_is_better)
