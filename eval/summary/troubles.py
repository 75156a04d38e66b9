"""What a run could not do: cells that failed, metrics without numbers, each with its reason."""

from collections import defaultdict
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
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in cells:
        for decode in cell.decodes:
            for name, scores in decode.scores.items():
                if scores.mean is None:
                    found[name, scores.gap or "no value"].append(cell.codec)
    return [
        Unmeasured(name, tuple(dict.fromkeys(codecs)), len(codecs), why)
        for (name, why), codecs in found.items()
    ]
