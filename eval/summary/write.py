"""A run's summary as files: headline.csv, frames.csv, summary.csv, summary.json, summary.md.

Here are the tables of our streams too: points, layers, seeds, what compute buys, what is missing.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gsvc.codec.planning.process import RADIOS
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.layout import csv_text, write_text
from gsvc.eval.summary import bd_comparisons, curves, rate_tables
from gsvc.eval.summary.rate_tables import NONE, Table, number, protocol, shown
from gsvc.eval.summary.summarise import ADDING, Summary, load_summary


def troubles_table(summary: Summary) -> Table:
    """What failed or could not run."""
    rows = [["cell failed", f"{f.clip}, {f.codec}, {f.settings}", f.error] for f in summary.failed]
    if lacks := "; ".join(summary.missing):
        rows.append(["not done yet", lacks, ADDING.format("this folder")])
    rows += [["not run", name, reason] for name, reason in summary.not_run.items()]
    rows += [["no bits", cell, "left out of every curve"] for cell in summary.without_bits]
    rows += [
        ["no number", f"{g.metric} of {', '.join(g.codecs)} ({g.decodes} decodes)", g.reason]
        for g in summary.gaps
    ]
    timed = {row.clip for row in summary.points if row.encode_ratio is not None}
    clips = {row.clip for row in summary.points} - timed
    rows += [["no time ratio", clip, curves.NO_REFERENCE] for clip in sorted(clips)]
    note = "What failed, what is missing, and why. No other number takes their place."
    return Table("What is missing", note, ["kind", "what", "why"], rows)


def ablation_table(summary: Summary) -> Table:
    """Bits and scores without each scaffold layer."""
    metrics = [m.name for m in rate_tables.primary(summary)]
    rows = []
    for row in summary.ablation:
        pairs = [(row.scores.get(name), row.gained.get(name)) for name in metrics]
        scores = [f"{number(score)} ({shown(more, '+.4f')})" for score, more in pairs]
        clip = f"{row.clip}, {row.series}" if row.series else row.clip
        bits = str(row.bits), shown(row.added_bits, "+d")
        rows.append([f"{clip}: {row.layers}", row.way or NONE, *bits, *scores])
    note = (
        "Each row leaves a layer out, or decodes the whole stream another way. Differences are "
        "from the whole stream decoded the first way; those of the score are in brackets. "
        f"{protocol(summary)}"
    )
    return Table("Layer by layer", note, ["layers", "decoded", "bits", "more", *metrics], rows)


def points_table(summary: Summary) -> Table:
    """Rate and quality of every decoded cell."""
    title = "All points" if summary.pooled else "Points"
    metrics = [metric.name for metric in summary.metrics]
    label, rows = curves.short_labels(summary.points), []
    for row in summary.points:
        scores = [number(row.scores.get(name)) for name in metrics]
        point = f"{row.clip}, {row.curve}, {label[row.key]}"
        rows.append([point, f"{row.bpp:.5f}", f"{row.kbps:.1f}", *scores])
    return Table(title, protocol(summary), ["point", "bpp", "kbit/s", *metrics], rows)


def ledgers_table(summary: Summary) -> Table:
    """Our streams' bits by layer."""
    mine: dict[str, curves.PointRow] = {}
    label = curves.short_labels(summary.points)
    for row in summary.points:
        if row.codec in (curves.OURS, curves.ABLATION):
            mine.setdefault(row.key, row)
    layers = curves.layers_of(mine.values())
    rows = []
    for row in mine.values():
        bits = [str(row.ledger.get(layer, 0)) for layer in layers]
        rows.append([f"{row.clip}, {row.codec}, {label[row.key]}", *bits, str(row.bits)])
    note = f"Bits by layer; they sum to the size of the file. {protocol(summary)}"
    return Table("Bits by layer", note, ["stream", *layers, "sum"], rows)


def seeds_table(summary: Summary) -> Table:
    """The spread of scores over seeds."""
    rows = []
    for s in summary.seeds:
        numbers = str(s.seeds), number(s.mean), f"{s.deviation:.2g}"
        rows.append([f"{s.clip}, {s.curve}, {s.settings}", s.metric, *numbers])
    note = f"The same stream decoded with several seeds. {protocol(summary)}"
    header = ["stream", "metric", "seeds", "mean", "standard deviation"]
    return Table("Spread over seeds", note, header, rows)


def durations_table(summary: Summary) -> Table:
    """Where the time went."""
    rows = []
    for one in summary.durations:
        numbers = f"{one.seconds:.0f}", f"{one.each:.1f}", f"{100 * one.share:.0f} %"
        rows.append([f"{one.kind} {one.name}", *numbers])
    note = (
        "Wall-clock seconds in the workers, summed over them: of a metric for each decoded clip, "
        "of a codec for each encode with its decodes; then the slowest cell. "
        f"{protocol(summary)}"
    )
    return Table("Where the time went", note, ["what", "seconds", "each", "share"], rows)


def metrics_table(summary: Summary) -> Table:
    """Units, directions and versions."""
    rows = [
        [
            metric.name,
            metric.unit or NONE,
            "higher" if metric.higher_is_better else "lower",
            "frame" if metric.per_frame else "clip",
            metric.version or "never measured here",
        ]
        for metric in summary.metrics
    ]
    rows += [[codec, "codec", NONE, NONE, version] for codec, version in summary.versions.items()]
    header = ["name", "unit", "better", "a value each", "version"]
    return Table("Metrics and codecs", protocol(summary), header, rows)


ENERGY_NOTE = (
    "Energy is for a second of video: of the processor by its own counters (RAPL), in a run of one "
    "worker where they may be read, else absent; of sending by a model of joules a bit: "
    + "; ".join(f"{name}, {radio.source}" for name, radio in RADIOS.items())
    + "."
)


def exchange_table(summary: Summary) -> Table:
    """The exchange of compute for rate, beside the published claim."""
    rows = []
    for row in summary.exchange:
        one = row.exchange
        numbers = f"{one.compute:.3g}x", f"{one.compression:.2f}x", f"{one.exponent:.3f}"
        rows.append([row.metric, row.unit, *numbers, str(row.frontiers)])
    claim = bd_comparisons.PUBLISHED
    numbers = f"{claim.compute:g}x", f"{claim.compression:g}x", f"{claim.exponent:.3f}"
    rows.append(["published", "-", *numbers, "-"])
    note = (
        "x-fold decoder compute buys y-fold compression, along B*(Q0, C): geometric means over "
        "clips and three qualities each, the exponent fitted to every frontier. "
        + "; ".join(f"{unit}: {meaning}" for unit, meaning in bd_comparisons.UNITS.items())
        + f". {protocol(summary)}"
    )
    header = ["metric", "compute as", "compute", "compression", "exponent", "frontiers"]
    return Table("What compute buys", note, header, rows if summary.exchange else [])


def frontier_table(summary: Summary, metric: curves.MetricInfo) -> Table:
    """The points of B*(Q0, C)."""
    rows = [
        [
            f"{row.clip}, {row.unit}",
            number(row.quality),
            f"{row.point.compute:.4g}",
            f"{row.point.bpp:.5f}" if row.point.bpp else "not reached",
            row.point.name or NONE,
        ]
        for row in summary.frontier
        if row.metric == metric.name
    ]
    note = (
        "The least rate that reaches the quality with at most that compute, over our hulls at "
        f"every number of steps. {rate_tables.basis(summary, metric)}"
    )
    header = ["clip, compute as", "quality", "compute", "bpp", "by"]
    return Table(f"B*(Q0, C), {metric.name}", note, header, rows)


def _energy(rows: Sequence[curves.PointRow]) -> list[str]:
    """Joules for a second of video: measured to encode and to decode, by a model to send."""
    found: dict[str, list[float | None]] = {}
    for row in rows:
        values = {"encode": row.encode_joules, "decode": row.decode_joules, **row.send_joules}
        for name, joules in values.items():
            seconds = row.frames / float(Fraction(row.frame_rate))
            found.setdefault(name, []).append(None if joules is None else joules / seconds)
    means = {name: curves.mean_of(many) for name, many in found.items()}
    sent = [f"{1000 * (means[radio] or 0.0):.3g}" for radio in RADIOS]
    return [shown(means["encode"], ".3g"), shown(means["decode"], ".3g"), *sent]


def _time_note(rows: Sequence[curves.PointRow]) -> str:
    crfs = sorted({row.reference_crf for row in rows if row.reference_crf is not None})
    crf = " or ".join(f"{one:g}" for one in crfs) or f"nearest to {curves.REFERENCE_CRF}"
    unit = f"encoding the same clip in the same run with {curves.REFERENCE}, crf {crf}"
    kind = "processor time of all cores, without a GPU's"
    if not curves.has_processor_time(rows):
        kind = "wall clock, for lack of processor time, with what else the machine did"
    return f"Times are {kind}, as multiples of {unit}."


def costs_table(summary: Summary) -> Table:
    """Time, operations and memory of every curve."""
    rows = []
    for curve in dict.fromkeys(row.curve for row in summary.points):
        mine = [row for row in summary.points if row.curve == curve]
        ratios = [
            curves.mean_of([getattr(row, f"{step}_ratio") for row in mine])
            for step in ("encode", "decode")
        ]
        flops = curves.mean_of([row.flops_per_pixel for row in mine])
        model = curves.mean_of([row.model_bytes for row in mine])
        memory = [row.peak_memory for row in mine if row.peak_memory is not None]
        rows.append(
            [
                curve,
                *(NONE if one is None else f"{one:.2f}x" for one in ratios),
                shown(flops, ",.0f"),
                NONE if model is None else f"{model / 1e6:.2f} MB",
                f"{max(memory) / 1e6:.0f} MB" if memory else NONE,
                *_energy(mine),
            ]
        )
    note = (
        f"Means over clips and rate points. {_time_note(summary.points)} FLOPs are per pixel of a "
        "frame, a multiply-add counts two; "
        f"memory is the peak over that before decoding. {ENERGY_NOTE} {protocol(summary)}"
    )
    header = ["curve", "encode", "decode", "FLOPs a pixel", "model", "peak memory"]
    header += ["J to encode", "J to decode", *(f"mJ over {name}" for name in RADIOS)]
    return Table("What it costs", note, header, rows)


def tables(summary: Summary) -> list[Table]:
    """Every table that has rows, the most telling first."""
    judges = rate_tables.primary(summary)
    made = [
        rate_tables.headline_table(summary),
        rate_tables.slideshow_table(summary),
        rate_tables.people_table(summary),
        troubles_table(summary),
        *(rate_tables.pooled_table(summary, metric) for metric in judges),
        rate_tables.pooled_others_table(summary),
        *(rate_tables.per_clip_table(summary, metric) for metric in judges),
        *(rate_tables.fixed_rate_table(summary, metric) for metric in judges),
        rate_tables.without_bd_rate_table(summary),
        exchange_table(summary),
        *(frontier_table(summary, metric) for metric in judges),
        ablation_table(summary),
        costs_table(summary),
        points_table(summary),
        ledgers_table(summary),
        seeds_table(summary),
        durations_table(summary),
        metrics_table(summary),
    ]
    return [table for table in made if table.rows]


_IN_PARTS = {"settings", "way", "scores", "ledger", "send_joules"}
_SENDING = [f"joules_over_{name}" for name in RADIOS]
_FIELDS = [field.name for field in fields(curves.PointRow) if field.name not in _IN_PARTS]


def write_summary(folder: str | Path) -> Summary:
    """Compute the summary of the run in `folder`, write its five files there, and return it.

    Raises InputError when the folder holds no run, OutputError when a file cannot be written.
    """
    run, summary = load_summary(folder)
    root = Path(folder)
    write_text(root / "headline.csv", headline_csv(summary))
    write_text(root / "frames.csv", frames_csv(run.cells, summary))
    write_text(root / "summary.csv", summary_csv(summary))
    write_text(root / "summary.json", summary_json(summary) + "\n")
    write_text(root / "summary.md", summary_markdown(summary))
    return summary


def summary_json(summary: Summary) -> str:
    """Every number of every table."""
    return json.dumps(asdict(summary), indent=1)


def summary_markdown(summary: Summary) -> str:
    """Every table, each under its title with its note."""
    told = f" Commit {summary.commit}." if summary.commit else ""
    parts = ["# Summary of the run", protocol(summary) + told]
    return "\n\n".join([*parts, *(table.section for table in tables(summary))]) + "\n"


def headline_csv(summary: Summary) -> str:
    """A row for each curve: the headline, whose it is; by judge mean, interval, clips, doubts."""
    parts = "", "_low", "_high", "_clips", "_doubts"
    judged = [f"{judge}{part}" for judge in curves.PRIMARY for part in parts]
    header = ["curve", "headline", "judge", *judged]
    rows: list[list[Any]] = []
    for row in summary.headline.rows:
        rows.append([row.curve, row.worse, row.judge])
        for judge in curves.PRIMARY:
            one, told = row.rates.get(judge), row.doubts.get(judge, "").removeprefix(", ")
            rows[-1] += [one.mean, one.low, one.high, one.clips, told] if one else [None] * 5
    return _csv(header, rows)


def pooled_csv(summary: Summary) -> str:
    """A row for each pair and metric: the pooled BD-rate in per cent, its interval, its clips."""
    header = ["metric", "test", "anchor", "bd_rate", "low", "high", "akima", "clips"]
    header += ["doubts", "left_out"]
    rows: list[list[Any]] = []
    for one in summary.pooled:
        mean = one.pchip and [one.pchip.mean, one.pchip.low, one.pchip.high]
        akima, clips = one.akima and one.akima.mean, one.pchip.clips if one.pchip else 0
        names, doubts = (one.metric, one.test, one.anchor), one.doubts.removeprefix(", ")
        rows.append([*names, *(mean or [None] * 3), akima, clips, doubts, "; ".join(one.left_out)])
    return _csv(header, rows)


def summary_csv(summary: Summary) -> str:
    """A row for each decoded cell, a column for each setting and metric; then the failed cells."""
    metrics = [metric.name for metric in summary.metrics]
    given = [{**point.settings, **point.way} for point in summary.points]
    choices = list(dict.fromkeys(name for values in given for name in values))
    taken = {*_FIELDS, *metrics}
    columns = [f"{name}_asked" if name in taken else name for name in choices]
    header = [*_FIELDS, *columns, "settings", "way", *metrics, "error", *_SENDING]
    rows: list[list[Any]] = [
        [
            *(getattr(point, name) for name in _FIELDS),
            *(values.get(name) for name in choices),
            curves.settings_label(point.settings),
            curves.settings_label(point.way),
            *(point.scores.get(name) for name in metrics),
            "",
            *point.send_joules.values(),
        ]
        for point, values in zip(summary.points, given, strict=True)
    ]
    rows += [[asdict(failure).get(name) for name in header] for failure in summary.failed]
    return _csv(header, rows)


def frames_csv(cells: Sequence[CellRecord], summary: Summary) -> str:
    """A row for each measured frame of each decoded cell, a column for each metric of frames."""
    metrics = [metric.name for metric in summary.metrics if metric.per_frame]
    header = ["clip", "curve", "settings", "way", "bpp", "frame", *metrics]
    rows: list[list[Any]] = []
    for cell in cells:
        for decode in cell.decodes:
            name = curves.curve_name(cell.codec, decode.way)
            label, way = curves.settings_label(cell.settings), curves.settings_label(decode.way)
            head = [curves.clip_label(cell), name, label, way, cell.bpp]
            columns = [decode.scores[m].values if m in decode.scores else [] for m in metrics]
            frames = range(0, cell.frames, summary.stride)
            rows += ([*head, *row] for row in zip_longest(frames, *columns))
    return _csv(header, rows)


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    shown = ([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows)
    return csv_text([header, *shown])
