"""What a run's records say: points, rate-distortion curves, metrics, failures.

A curve is of one clip, metric, codec and way to decode; codecs of one family also have a joint
curve. The unit of time is encoding the same clip with x265 slow at full size (`REFERENCE_CRF`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from gsvc.codec.planning.process import RADIOS
from gsvc.eval.bench.store import CellRecord, DecodeRecord
from gsvc.eval.late_loading import CodecFacts
from gsvc.eval.summary.bd_rate import RatePoint, hull_at, lower_hull

PRIMARY = ("cvvdp", "st_lpips_vgg")
"""The judges of the headline: what an eye sees of a video on a display, and texture."""


@dataclass(frozen=True)
class MetricInfo:
    """A metric of a run."""

    name: str
    unit: str
    """"dB", "" for none."""
    higher_is_better: bool
    per_frame: bool
    """False: one number for the whole clip."""
    version: str
    """Package and variant; empty where it never gave a number."""

    @property
    def title(self) -> str:
        """For tables and axes: name, unit, which way is better."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}, {'higher' if self.higher_is_better else 'lower'} is better"


def metrics_of(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> list[MetricInfo]:
    """The metrics of run.json that any cell was scored with, the primary ones first."""
    versions: dict[str, str] = {}
    for cell in cells:
        for decode in cell.decodes:
            for name, scores in decode.scores.items():
                versions[name] = versions.get(name) or scores.version
    known = settings.get("metrics", {})
    shown = [name for name in versions if name in known]
    shown.sort(key=lambda n: PRIMARY.index(n) if n in PRIMARY else len(PRIMARY))
    return [MetricInfo(**{**known[n], "name": n, "version": versions[n]}) for n in shown]


def codecs_of(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> dict[str, CodecFacts]:
    """The facts of the cells' codecs, by name.

    A run made before run.json had them gets those of this version's codecs. "anchors" of run.json,
    where there are any, are the anchors.
    """
    known = settings.get("codec_facts")
    if known is None:
        from gsvc.eval.baselines import codecs, find_codec

        ours = {cell.codec for cell in cells} & set(codecs())
        known = {name: asdict(find_codec(name).facts) for name in ours}
    found = {cell.codec: CodecFacts(**known.get(cell.codec, {})) for cell in cells}
    if anchors := settings.get("anchors"):
        return {name: replace(facts, is_anchor=name in anchors) for name, facts in found.items()}
    return found


OURS = "gsvc"
SEVERAL = " | "
"""Between the versions of one codec."""
ABLATION = "gsvc-layers"
"""The codec whose settings switch layers off: it has a table of its own and is in no curve."""


class CurvePoint(NamedTuple):
    """One decoded cell."""

    bpp: float
    """Bits per pixel of a frame as shown."""
    value: float
    """In the metric's own unit."""
    settings: Mapping[str, int | float | str]


@dataclass(frozen=True)
class Curve:
    """All points of one codec, decoded one way, on one clip, in one metric."""

    clip: str
    name: str
    codec: str
    metric: str
    higher_is_better: bool
    points: tuple[CurvePoint, ...]
    """By rising rate."""
    without_bits: tuple[str, ...] = ()
    """Settings of empty streams, which have no place on a log scale of rate."""
    is_anchor: bool = False
    """The others are measured against its hull."""

    @cached_property
    def hull(self) -> list[RatePoint]:
        """The lower hull of (bpp, distance); empty for a curve without points."""
        return lower_hull([(p.bpp, distance(p.value, self.higher_is_better)) for p in self.points])

    def value_at(self, bpp: float) -> float | None:
        """What the hull reaches at a rate, in the metric's own unit; None outside its rates."""
        found = hull_at(self.hull, bpp)
        return None if found is None else distance(found, self.higher_is_better)


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
    return mean_of([one.scores[metric].mean for one in decodes if metric in one.scores])


def curves(
    cells: Sequence[CellRecord], metric: str, higher_is_better: bool, anchors: Collection[str] = ()
) -> list[Curve]:
    """Every curve of a run in one metric, in the order of the cells; `anchors`: names of codecs."""
    points: dict[tuple[str, str, str], list[CurvePoint]] = defaultdict(list)
    empty: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for cell in cells:
        mine = {} if cell.error or cell.codec == ABLATION else by_curve(cell)
        for name, decodes in mine.items():
            value = mean_score(decodes, metric)
            key = (clip_label(cell), name, cell.codec)
            if value is not None and cell.bits:
                points[key].append(CurvePoint(cell.bpp, value, cell.settings))
            elif value is not None:
                empty[key].append(settings_label(cell.settings))
    found = []
    for key in dict.fromkeys([*points, *empty]):
        line = tuple(sorted(points[key], key=lambda point: point.bpp))
        is_anchor = key[-1] in anchors
        found.append(Curve(*key, metric, higher_is_better, line, tuple(empty[key]), is_anchor))
    return found


REFERENCE = "x265 slow at full size"
REFERENCE_CRF = 45
"""Of the crfs that a run has of it, the nearest to this one is the unit of time on a clip."""
NO_REFERENCE = f"the run has no {REFERENCE} on this clip"


@dataclass(frozen=True)
class PointRow:
    """A decoded cell."""

    clip: str
    curve: str
    codec: str
    settings: dict[str, int | float | str]
    way: dict[str, int | float | str]
    width: int
    height: int
    frame_rate: str
    frames: int
    bits: int
    bpp: float
    """Bits per pixel of a frame as shown."""
    kbps: float
    scores: dict[str, float | None]
    ledger: dict[str, int]
    encode_seconds: float
    """Wall-clock, as `decode_seconds`."""
    decode_seconds: float
    reference_crf: float | None
    """Of `REFERENCE` on the same clip; None if that is not in the run."""
    encode_ratio: float | None
    """Multiple of encoding with it, as `has_processor_time` says; None without it."""
    decode_ratio: float | None
    flops_per_pixel: float | None
    model_bytes: int | None
    peak_memory: int | None
    """Bytes."""
    encode_joules: float | None
    """Of the processor, measured; None: not measured, as `decode_joules`."""
    decode_joules: float | None
    encode_cpu_seconds: float | None
    """Processor time, all cores together; None: not measured, as `decode_cpu_seconds`."""
    decode_cpu_seconds: float | None
    send_joules: dict[str, float]
    """Of sending the stream once, by radio: a model of joules a bit, not measured."""
    stream_sha256: str
    frames_sha256: str
    key: str


def point_rows(
    cells: Sequence[CellRecord], ratios: Mapping[str, Mapping[str, Any]] | None = None
) -> list[PointRow]:
    """Rows in the order of the cells. `ratios`: of time, where a kept table has them."""
    rows = [_row(cell, decode) for cell in cells for decode in cell.decodes]
    if ratios is not None:  # points of several runs: each had its own unit of time
        return [replace(row, **ratios[row.key + row.frames_sha256]) for row in rows]
    return [*_with_ratios(rows)]


def has_processor_time(rows: Iterable[PointRow]) -> bool:
    """Whether ratios are of processor time: every row has it. Else they are of wall clock."""
    return all(None not in (row.encode_cpu_seconds, row.decode_cpu_seconds) for row in rows)


def _with_ratios(rows: Sequence[PointRow]) -> Iterator[PointRow]:
    kind = "cpu_seconds" if has_processor_time(rows) else "seconds"
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in rows:
        is_full = Fraction(str(row.settings.get("scale", 1))) == 1
        is_slow = row.codec == "x265" and row.settings.get("preset", "slow") == "slow"
        if is_full and is_slow and (unit := getattr(row, f"encode_{kind}")):
            crf = float(row.settings.get("crf", 0))
            found[row.clip].append((abs(crf - REFERENCE_CRF), crf, unit))
    for row in rows:
        if row.clip in found:
            _, crf, unit = min(found[row.clip])
            steps = ("encode", "decode")
            ratios = {f"{step}_ratio": getattr(row, f"{step}_{kind}") / unit for step in steps}
            yield replace(row, reference_crf=crf, **ratios)
        else:
            yield row


def _row(cell: CellRecord, decode: DecodeRecord) -> PointRow:
    records = {**vars(decode), **vars(cell)}
    same = {one.name: records[one.name] for one in fields(PointRow) if one.name in records}
    own = {
        "clip": clip_label(cell),
        "curve": curve_name(cell.codec, decode.way),
        "bpp": cell.bpp,
        "kbps": cell.bitrate / 1000,
        "scores": {name: scores.mean for name, scores in decode.scores.items()},
        "decode_seconds": decode.seconds,
        **dict.fromkeys(("reference_crf", "encode_ratio", "decode_ratio")),
        "decode_joules": decode.joules,
        "decode_cpu_seconds": decode.cpu_seconds,
        "send_joules": {name: cell.bits * radio.joules_per_bit for name, radio in RADIOS.items()},
    }
    return PointRow(**{**same, **own})


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of those that are there; None without any."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def short_labels(rows: Sequence[PointRow]) -> dict[str, str]:
    """By key: the settings in which streams of the codec differ, all of them where none does."""
    labels = {}
    for codec in dict.fromkeys(row.codec for row in rows):
        mine = [row for row in rows if row.codec == codec]
        names = dict.fromkeys(name for row in mine for name in row.settings)
        varied = [n for n in names if len({str(row.settings.get(n)) for row in mine}) > 1] or names
        for row in mine:
            labels[row.key] = settings_label({n: v for n, v in row.settings.items() if n in varied})
    return labels


def layers_of(rows: Collection[PointRow]) -> list[str]:
    """The layers that take bits in any of the streams."""
    names = dict.fromkeys(name for row in rows for name in row.ledger)
    return [name for name in names if any(row.ledger.get(name) for row in rows)]


def family_curves(found: Sequence[Curve], codecs: Mapping[str, CodecFacts]) -> Iterator[Curve]:
    """A curve of one metric for each clip and family of several codecs, with all their points."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in found:
        if family := codecs[curve.codec].family:
            groups.setdefault((curve.clip, family), []).append(curve)
    for (clip, family), curves in groups.items():
        if len({curve.codec for curve in curves}) > 1:
            points = sorted((p for c in curves for p in c.points), key=lambda point: point.bpp)
            first = curves[0]
            yield Curve(clip, family, family, first.metric, first.higher_is_better, tuple(points))


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
