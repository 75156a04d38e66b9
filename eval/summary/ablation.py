"""The layer ablation: what the stream loses in bits and quality without each of its layers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    rows: list[AblationRow] = []
    for (clip, name), group in series.items():
        steps = _steps(group)
        cell, way = next(step for step in steps if step[0] is group[-1])
        whole = _row(cell, way, clip, name, metrics, None)
        for step in steps:
            is_whole = step == (cell, way)
            rows.append(whole if is_whole else _row(*step, clip, name, metrics, whole))
    return rows


def _steps(group: Sequence[CellRecord]) -> list[tuple[CellRecord, str]]:
    """Every cell decoded the first way, then the last cell, the whole stream, the other ways."""
    ways = [list(by_curve(cell)) for cell in group]
    steps = [(cell, names[0]) for cell, names in zip(group, ways, strict=True) if names]
    return [*steps, *((group[-1], name) for name in ways[-1][1:])]


def _row(
    cell: CellRecord,
    way: str,
    clip: str,
    series: str,
    metrics: Sequence[str],
    whole: AblationRow | None,
) -> AblationRow:
    decodes = by_curve(cell)[way]
    scores = {metric: mean_score(decodes, metric) for metric in metrics}
    return AblationRow(
        clip=clip,
        series=series,
        layers=str(cell.settings.get(LAYERS_SETTING, "")),
        way=way.removeprefix(cell.codec).removeprefix(", "),
        bits=cell.bits,
        bpp=cell.bpp,
        ledger=cell.ledger,
        scores=scores,
        added_bits=cell.bits - whole.bits if whole else None,
        gained=_difference(scores, whole.scores) if whole else dict.fromkeys(metrics),
    )


def _difference(
    scores: Mapping[str, float | None], whole: Mapping[str, float | None]
) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for metric, score in scores.items():
        reference = whole.get(metric)
        found[metric] = None if score is None or reference is None else score - reference
    return found
