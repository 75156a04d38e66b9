"""The layer ablation: what the stream loses in bits and quality without each of its layers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.summary.curves import ABLATION, by_curve, clip_label, mean_score, settings_label

LAYERS_SETTING = "tools"
"""The setting that says which layers are on; the other settings distinguish series."""


@dataclass(frozen=True)
class AblationRow:
    """One set of layers, decoded one way."""

    clip: str
    series: str
    layers: str
    way: str
    bits: int
    bpp: float
    ledger: dict[str, int]
    scores: dict[str, float | None]
    added_bits: int | None
    """Bits less those of the whole stream decoded the first way; None in that row itself."""
    gained: dict[str, float | None]
    """Scores less those of the whole stream decoded the first way; None in that row itself."""


def ablation_rows(cells: Sequence[CellRecord], metrics: Sequence[str]) -> list[AblationRow]:
    """Rows by clip and series, in the order of the cells; the last cell is the whole stream."""
    mine = [cell for cell in cells if cell.codec == ABLATION and not cell.error]
    seen = [{(key, str(value)) for key, value in cell.settings.items()} for cell in mine]
    constant = {key for key, _ in set.intersection(*seen)} if seen else set()
    series: dict[tuple[str, str], list[CellRecord]] = defaultdict(list)
    for cell in mine:
        hidden = constant | {LAYERS_SETTING}
        name = settings_label({k: v for k, v in cell.settings.items() if k not in hidden})
        series[clip_label(cell), name].append(cell)
    return [
        row for (clip, name), group in series.items() for row in _rows(clip, name, group, metrics)
    ]


def _rows(
    clip: str, series: str, group: Sequence[CellRecord], metrics: Sequence[str]
) -> Iterator[AblationRow]:
    """Every cell decoded the first way, then the last cell, the whole stream, the other ways."""
    first = [(cell, way) for cell in group for way in [*by_curve(cell)][:1]]
    others = [*by_curve(group[-1])][1:]
    whole = _scores(*first[-1], metrics)
    for cell, way in [*first, *((group[-1], way) for way in others)]:
        scores = _scores(cell, way, metrics)
        is_whole = (cell, way) == first[-1]
        yield AblationRow(
            clip=clip,
            series=series,
            layers=str(cell.settings.get(LAYERS_SETTING, "")),
            way=way.removeprefix(cell.codec).removeprefix(", "),
            bits=cell.bits,
            bpp=cell.bpp,
            ledger=cell.ledger,
            scores=scores,
            added_bits=None if is_whole else cell.bits - group[-1].bits,
            gained={m: None if is_whole else _less(scores[m], whole[m]) for m in metrics},
        )


def _scores(cell: CellRecord, way: str, metrics: Sequence[str]) -> dict[str, float | None]:
    return {metric: mean_score(by_curve(cell)[way], metric) for metric in metrics}


def _less(score: float | None, whole: float | None) -> float | None:
    return None if score is None or whole is None else score - whole
