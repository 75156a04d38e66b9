"""Which pairs a study shows: our version of every clip and level beside others at its rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gsvc.codec.errors import ConfigError, InputError
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.report.choice import BEST_KNOWN, Choice, near_rate
from gsvc.eval.report.style import CurveStyle
from gsvc.eval.summary.curves import ABLATION, OURS, by_curve
from gsvc.eval.summary.summarise import Summary


@dataclass(frozen=True)
class Pair:
    """Two decoded streams of a clip."""

    clip: str
    level: str
    """Of our stream."""
    ours: Choice
    other: Choice

    @property
    def bits_ratio(self) -> float:
        """The other's bits as a multiple of ours."""
        return self.other.cell.bits / self.ours.cell.bits


def find_pairs(
    summary: Summary, cells: Sequence[CellRecord], ours: str = "", others: Sequence[str] = ()
) -> list[Pair]:
    """By clip and level: the curve `ours` against each of the curves `others`, nearest in rate.

    By default ours is gsvc with the most steps, the other is AV1. Raises ConfigError for a curve
    that the run lacks, InputError when it has no stream of gsvc or none to compare it with.
    """
    names = CurveStyle(summary.codecs).in_order(
        name for cell in cells if cell.codec != ABLATION for name in by_curve(cell)
    )
    ours = ours or _most_steps(names)
    others = list(dict.fromkeys(others)) or [BEST_KNOWN]
    for name in (ours, *others):
        if name not in names:
            known = ", ".join(f'"{one}"' for one in names)
            raise ConfigError(f'"{name}" is not in the run: choose from {known}')
    if ours in others:
        raise ConfigError(f'"{ours}" cannot be compared with itself: choose others')
    if pairs := list(_pairs(summary, cells, ours, others)):
        return pairs
    raise InputError(f'no clip has both "{ours}" and another version: run the benchmark')


def _most_steps(names: Sequence[str]) -> str:
    found = [name for name in names if name.split(",")[0] == OURS]
    if not found:
        raise InputError("the run has no stream of gsvc: run the benchmark with it")
    return found[-1]


def _pairs(
    summary: Summary, cells: Sequence[CellRecord], ours: str, others: Sequence[str]
) -> Iterator[Pair]:
    levels = dict.fromkeys(_level(cell) for cell in cells if cell.codec == OURS)
    for level in sorted(levels, key=str):
        used = [cell for cell in cells if cell.codec != OURS or _level(cell) == level]
        for clip, choices in near_rate(summary, used).items():
            found = {choice.curve: choice for choice in choices}
            for other in others:
                if ours in found and other in found:
                    yield Pair(clip, str(level), found[ours], found[other])


def _level(cell: CellRecord) -> int | float | str:
    """The level, or the rate asked for."""
    return cell.settings.get("level", cell.settings.get("bpp", ""))
