"""What a run could not do: cells that failed, metrics without numbers, each with its reason."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.summary.curves import clip_label, settings_label


@dataclass(frozen=True)
class Failure:
    """A cell that failed, and why."""

    clip: str
    codec: str
    settings: str
    error: str
    key: str


@dataclass(frozen=True)
class Unmeasured:
    """A metric without numbers, and why."""

    metric: str
    codecs: tuple[str, ...]
    decodes: int
    """How many decoded clips it concerns."""
    reason: str


def failures(cells: Sequence[CellRecord]) -> list[Failure]:
    """The failed cells, in order."""
    return [
        Failure(clip_label(c), c.codec, settings_label(c.settings), c.error, c.key)
        for c in cells
        if c.error
    ]


def without_bits(cells: Sequence[CellRecord]) -> list[str]:
    """Cells that did not fail and have an empty stream: they are in no curve."""
    return [
        f"{clip_label(cell)}, {cell.codec}, {settings_label(cell.settings)}"
        for cell in cells
        if not cell.error and not cell.bits
    ]


def gaps(cells: Sequence[CellRecord]) -> list[Unmeasured]:
    """Each metric and reason once, with the codecs concerned."""
    counts: Counter[tuple[str, str]] = Counter()
    codecs: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        for decode in cell.decodes:
            for name, scores in decode.scores.items():
                if scores.mean is None:
                    key = name, scores.gap or "no value"
                    counts[key] += 1
                    codecs.setdefault(key, {})[cell.codec] = None
    return [Unmeasured(key[0], tuple(codecs[key]), counts[key], key[1]) for key in counts]
