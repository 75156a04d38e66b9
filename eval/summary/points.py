"""One row for every decoded cell, for `summary.csv` and the tables of points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from gsvc.codec.planning.energy import RADIOS
from gsvc.eval.bench.record import CellRecord, DecodeRecord
from gsvc.eval.summary.curves import clip_label, curve_name, settings_label
from gsvc.eval.summary.times import reference_seconds


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
    encode_ratio: float | None
    """Multiple of encoding with x265 slow on the same clip; None if that is not in the run."""
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


def point_rows(cells: Sequence[CellRecord]) -> list[PointRow]:
    """Rows in the order of the cells."""
    reference = reference_seconds(cells)
    return [_row(cell, decode, reference) for cell in cells for decode in cell.decodes]


def _row(cell: CellRecord, decode: DecodeRecord, reference: Mapping[str, float]) -> PointRow:
    clip = clip_label(cell)
    unit = reference.get(clip)
    return PointRow(
        clip=clip,
        curve=curve_name(cell.codec, decode.way),
        codec=cell.codec,
        settings=cell.settings,
        way=decode.way,
        width=cell.width,
        height=cell.height,
        frame_rate=cell.frame_rate,
        frames=cell.frames,
        bits=cell.bits,
        bpp=cell.bpp,
        kbps=cell.bitrate / 1000,
        scores={name: scores.mean for name, scores in decode.scores.items()},
        ledger=cell.ledger,
        encode_seconds=cell.encode_seconds,
        decode_seconds=decode.seconds,
        encode_ratio=cell.encode_seconds / unit if unit else None,
        decode_ratio=decode.seconds / unit if unit else None,
        flops_per_pixel=decode.flops_per_pixel,
        model_bytes=decode.model_bytes,
        peak_memory=decode.peak_memory,
        encode_joules=cell.encode_joules,
        decode_joules=decode.joules,
        encode_cpu_seconds=cell.encode_cpu_seconds,
        decode_cpu_seconds=decode.cpu_seconds,
        send_joules={name: cell.bits * radio.joules_per_bit for name, radio in RADIOS.items()},
        stream_sha256=cell.stream_sha256,
        frames_sha256=decode.frames_sha256,
        key=cell.key,
    )


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
