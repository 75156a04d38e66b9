"""Tables of what compute costs and what it buys."""

from collections.abc import Sequence
from fractions import Fraction

from gsvc.codec.planning.energy import RADIOS
from gsvc.eval.summary.compute_rate import UNITS
from gsvc.eval.summary.frontier import PUBLISHED
from gsvc.eval.summary.points import PointRow, mean_of
from gsvc.eval.summary.recorded import MetricInfo
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import NONE, Table, basis, multiple, number, protocol, rate
from gsvc.eval.summary.times import REFERENCE

ENERGY_NOTE = (
    "Energy is for a second of video: of the processor by its own counters (RAPL), in a run of one "
    "worker where they may be read, else absent; of sending by a model of joules a bit: "
    + "; ".join(f"{name}, {radio.source}" for name, radio in RADIOS.items())
    + "."
)


def exchange_table(summary: Summary) -> Table:
    """The exchange of compute for rate, beside the published claim."""
    rows = [
        [
            row.metric,
            row.unit,
            f"{row.exchange.compute:.3g}x",
            f"{row.exchange.compression:.2f}x",
            f"{row.exchange.exponent:.3f}",
            str(row.frontiers),
        ]
        for row in summary.exchange
    ]
    claim = PUBLISHED
    numbers = f"{claim.compute:g}x", f"{claim.compression:g}x", f"{claim.exponent:.3f}"
    rows.append(["published", "-", *numbers, "-"])
    note = (
        "x-fold decoder compute buys y-fold compression, along B*(Q0, C): geometric means over "
        "clips and three qualities each, the exponent fitted to every frontier. "
        + "; ".join(f"{unit}: {meaning}" for unit, meaning in UNITS.items())
        + f". {protocol(summary)}"
    )
    header = ["metric", "compute as", "compute", "compression", "exponent", "frontiers"]
    return Table("What compute buys", note, header, rows if summary.exchange else [])


def frontier_table(summary: Summary, metric: MetricInfo) -> Table:
    """The points of B*(Q0, C)."""
    rows = [
        [
            f"{row.clip}, {row.unit}",
            number(row.quality),
            f"{row.point.compute:.4g}",
            rate(row.point.bpp) if row.point.bpp else "not reached",
            row.point.name or NONE,
        ]
        for row in summary.frontier
        if row.metric == metric.name
    ]
    note = (
        "The least rate that reaches the quality with at most that compute, over our hulls at "
        f"every number of steps. {basis(summary, metric)}"
    )
    header = ["clip, compute as", "quality", "compute", "bpp", "by"]
    return Table(f"B*(Q0, C), {metric.name}", note, header, rows)


def _energy(rows: Sequence[PointRow]) -> list[str]:
    """Joules for a second of video: measured to encode and to decode, by a model to send."""
    found = []
    for name in ("encode_joules", "decode_joules"):
        mean = mean_of([_a_second(row, getattr(row, name)) for row in rows])
        found.append(NONE if mean is None else f"{mean:.3g}")
    for radio in RADIOS:
        sent = mean_of([_a_second(row, row.send_joules[radio]) for row in rows])
        found.append(f"{1000 * (sent or 0.0):.3g}")
    return found


def _a_second(row: PointRow, joules: float | None) -> float | None:
    return None if joules is None else joules * float(Fraction(row.frame_rate)) / row.frames


def costs_table(summary: Summary) -> Table:
    """Time, operations and memory of every curve."""
    rows = []
    for curve in dict.fromkeys(row.curve for row in summary.points):
        mine = [row for row in summary.points if row.curve == curve]
        flops = mean_of([row.flops_per_pixel for row in mine])
        model = mean_of([row.model_bytes for row in mine])
        memory = [row.peak_memory for row in mine if row.peak_memory is not None]
        rows.append(
            [
                curve,
                multiple(mean_of([row.encode_ratio for row in mine])),
                multiple(mean_of([row.decode_ratio for row in mine])),
                NONE if flops is None else f"{flops:,.0f}",
                NONE if model is None else f"{model / 1e6:.2f} MB",
                f"{max(memory) / 1e6:.0f} MB" if memory else NONE,
                *_energy(mine),
            ]
        )
    note = (
        f"Means over clips and rate points. Times are multiples of encoding with {REFERENCE} on "
        "the same clip in the same run; FLOPs are per pixel of a frame, a multiply-add counts two; "
        f"memory is the peak over that before decoding. {ENERGY_NOTE} {protocol(summary)}"
    )
    header = ["curve", "encode", "decode", "FLOPs a pixel", "model", "peak memory"]
    header += ["J to encode", "J to decode", *(f"mJ over {name}" for name in RADIOS)]
    return Table("What it costs", note, header, rows)
