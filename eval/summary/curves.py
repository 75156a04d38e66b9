"""Rate-distortion curves of a run's cells: one per clip, metric, codec and way to decode."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from statistics import fmean

from gsvc.eval.bench.record import CellRecord, DecodeRecord
from gsvc.eval.summary.hull import RatePoint, lower_hull

OURS = "gsvc"
ABLATION = "gsvc-layers"
"""The codec whose settings switch layers off: it has a table of its own and is in no curve."""


@dataclass(frozen=True)
class Point:
    """One decoded cell."""

    bpp: float
    """Bits per pixel of a frame as shown."""
    value: float
    """In the metric's own unit."""
    settings: Mapping[str, int | float | str]
    """The settings it was coded with."""


@dataclass(frozen=True)
class Curve:
    """All points of one codec, decoded one way, on one clip, in one metric."""

    clip: str
    name: str
    codec: str
    metric: str
    higher_is_better: bool
    points: tuple[Point, ...]
    """By rising rate."""
    without_bits: tuple[str, ...] = ()
    """Settings of empty streams, which have no place on a log scale of rate."""
    is_anchor: bool = False
    """The others are measured against its hull."""

    @cached_property
    def hull(self) -> list[RatePoint]:
        """The lower hull of (bpp, distance); empty for a curve without points."""
        return lower_hull([(p.bpp, distance(p.value, self.higher_is_better)) for p in self.points])

    def nearest(self, bpp: float) -> Point:
        """The point nearest in log rate; of several, the best."""
        sign = -1 if self.higher_is_better else 1
        return min(self.points, key=lambda p: (abs(log(p.bpp / bpp)), sign * p.value))


def distance(value: float, higher_is_better: bool) -> float:
    """The metric's value as a distance, where lower is better; the function is its own inverse."""
    return -value if higher_is_better else value


def clip_label(cell: CellRecord) -> str:
    """The clip's name in tables, with its size if that is not 288 lines."""
    return cell.clip if cell.size == "288" else f"{cell.clip} at {cell.size}"


def curve_name(codec: str, way: Mapping[str, int | float | str]) -> str:
    """ "gsvc, steps 4": the codec and the way it was decoded, without the seed."""
    choices = sorted((key, value) for key, value in way.items() if key != "seed")
    return ", ".join([codec, *(f"{key} {value}" for key, value in choices)])


def settings_label(settings: Mapping[str, int | float | str]) -> str:
    """ "crf 40, preset slow": settings for people, in the order of their names."""
    return ", ".join(f"{key} {value}" for key, value in sorted(settings.items()))


def by_curve(cell: CellRecord) -> dict[str, list[DecodeRecord]]:
    """The cell's decodes by the name of their curve; several of one name differ in the seed.

    Equal frames count once: the stream's own seed may have been asked for by its number as well.
    """
    found: dict[str, dict[str, DecodeRecord]] = defaultdict(dict)
    for decode in cell.decodes:
        found[curve_name(cell.codec, decode.way)].setdefault(decode.frames_sha256, decode)
    return {name: list(decodes.values()) for name, decodes in found.items()}


def mean_score(decodes: Iterable[DecodeRecord], metric: str) -> float | None:
    """The mean over decodes (seeds) of a metric; None where all of them have a gap."""
    scores = [decode.scores.get(metric) for decode in decodes]
    means = [score.mean for score in scores if score is not None and score.mean is not None]
    return fmean(means) if means else None


def curves(
    cells: Sequence[CellRecord], metric: str, higher_is_better: bool, anchors: Collection[str] = ()
) -> list[Curve]:
    """Every curve of a run in one metric, in the order of the cells; `anchors`: names of codecs."""
    points: dict[tuple[str, str, str], list[Point]] = defaultdict(list)
    empty: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for cell in cells:
        mine = {} if cell.error or cell.codec == ABLATION else by_curve(cell)
        for name, decodes in mine.items():
            value = mean_score(decodes, metric)
            key = (clip_label(cell), name, cell.codec)
            if value is not None and cell.bits:
                points[key].append(Point(cell.bpp, value, cell.settings))
            elif value is not None:
                empty[key].append(settings_label(cell.settings))
    return [
        Curve(
            clip,
            name,
            codec,
            metric,
            higher_is_better,
            tuple(sorted(points[clip, name, codec], key=lambda point: point.bpp)),
            tuple(empty[clip, name, codec]),
            codec in anchors,
        )
        for clip, name, codec in dict.fromkeys([*points, *empty])
    ]
