"""Which decoded clips stand side by side: one of each codec, near one rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from gsvc.eval.bench.record import CellRecord, DecodeRecord
from gsvc.eval.summary.curves import ABLATION, OURS, by_curve, clip_label
from gsvc.eval.summary.summarise import Summary

_USUAL_LEVEL = 1


@dataclass(frozen=True)
class Choice:
    """A decoded cell, and the name of its curve."""

    curve: str
    cell: CellRecord
    decode: DecodeRecord


def near_rate(
    summary: Summary, cells: Sequence[CellRecord], level: int = _USUAL_LEVEL
) -> dict[str, list[Choice]]:
    """By clip label: each curve's cell nearest in log rate, of equals the better one.

    The rate is that of our stream at `level`; without one, the median of ours; without ours, of
    all.
    """
    clips: dict[str, list[CellRecord]] = {}
    for cell in cells:
        if cell.bits and cell.decodes and cell.codec != ABLATION:
            clips.setdefault(clip_label(cell), []).append(cell)
    return {clip: _choose(mine, _sign(summary), level) for clip, mine in clips.items()}


def _choose(cells: Sequence[CellRecord], sign: Mapping[str, int], level: int) -> list[Choice]:
    rate = _target(cells, level)
    found: dict[str, tuple[tuple[float, float], Choice]] = {}
    for cell in cells:
        for name, decodes in by_curve(cell).items():
            one = Choice(name, cell, decodes[0])
            rank = round(abs(log(cell.bpp / rate)), 1), _score(one.decode, sign)
            if name not in found or rank < found[name][0]:
                found[name] = rank, one
    return [choice for _, choice in found.values()]


def _target(cells: Sequence[CellRecord], level: int) -> float:
    ours = [cell for cell in cells if cell.codec == OURS]
    wanted = [cell for cell in ours if cell.settings.get("level") == level]
    rates = sorted(cell.bpp for cell in wanted or ours or cells)
    return rates[len(rates) // 2]


def _sign(summary: Summary) -> dict[str, int]:
    return {metric.name: -1 if metric.higher_is_better else 1 for metric in summary.metrics[:1]}


def _score(decode: DecodeRecord, sign: Mapping[str, int]) -> float:
    """The first metric as a distance; clips without it rank last."""
    for name, factor in sign.items():
        scores = decode.scores.get(name)
        if scores is not None and scores.mean is not None:
            return factor * scores.mean
    return float("inf")
