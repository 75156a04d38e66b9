"""A run's summary as files: headline.csv, frames.csv, summary.csv, summary.json, summary.md."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gsvc.codec.planning.energy import RADIOS
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.layout import csv_text, markdown, write_text
from gsvc.eval.summary import rate_tables, stream_tables
from gsvc.eval.summary.curves import PRIMARY, PointRow, clip_label, curve_name, settings_label
from gsvc.eval.summary.rate_tables import Table, protocol
from gsvc.eval.summary.summarise import Summary, load_summary


def tables(summary: Summary) -> list[Table]:
    """Every table that has rows, the most telling first."""
    judges = rate_tables.primary(summary)
    made = [
        rate_tables.headline_table(summary),
        rate_tables.slideshow_table(summary),
        rate_tables.people_table(summary),
        stream_tables.troubles_table(summary),
        *(rate_tables.pooled_table(summary, metric) for metric in judges),
        rate_tables.pooled_others_table(summary),
        stream_tables.points_table(summary),
        *(rate_tables.per_clip_table(summary, metric) for metric in judges),
        *(rate_tables.beside_table(summary, metric) for metric in judges),
        rate_tables.without_bd_rate_table(summary),
        stream_tables.exchange_table(summary),
        *(stream_tables.frontier_table(summary, metric) for metric in judges),
        stream_tables.ablation_table(summary),
        stream_tables.costs_table(summary),
        stream_tables.ours_table(summary),
        stream_tables.ledgers_table(summary),
        stream_tables.seeds_table(summary),
        stream_tables.durations_table(summary),
        stream_tables.metrics_table(summary),
    ]
    return [table for table in made if table.rows]


_IN_PARTS = {"settings", "way", "scores", "ledger", "send_joules"}
_SENDING = [f"joules_over_{name}" for name in RADIOS]
_FIELDS = [field.name for field in fields(PointRow) if field.name not in _IN_PARTS]


def write_summary(folder: str | Path) -> Summary:
    """Compute the summary of the run in `folder`, write its five files there, and return it.

    Raises InputError when the folder holds no run, OutputError when a file cannot be written.
    """
    run, summary = load_summary(folder)
    root = Path(folder)
    write_text(root / "headline.csv", headline_csv(summary))
    write_text(root / "frames.csv", frames_csv(run.cells, summary))
    write_text(root / "summary.csv", summary_csv(summary))
    write_text(root / "summary.json", json.dumps(asdict(summary), indent=1) + "\n")
    write_text(root / "summary.md", summary_markdown(summary))
    return summary


def summary_markdown(summary: Summary) -> str:
    """Every table, each under its title with its note."""
    parts = ["# Summary of the run", protocol(summary)]
    for table in tables(summary):
        parts += [f"## {table.title}", table.note, markdown(table.header, table.rows)]
    return "\n\n".join(parts) + "\n"


def headline_csv(summary: Summary) -> str:
    """A row for each curve: the headline, whose it is, and each judge's mean, interval, clips."""
    header = ["curve", "headline", "judge"]
    header += [f"{judge}{part}" for judge in PRIMARY for part in ("", "_low", "_high", "_clips")]
    rows = []
    for row in summary.headline.rows:
        found = [row.rates.get(judge) for judge in PRIMARY]
        numbers = [[one.mean, one.low, one.high, one.clips] if one else [None] * 4 for one in found]
        rows.append([row.curve, row.worse, row.judge, *(n for part in numbers for n in part)])
    return _csv(header, rows)


def pooled_csv(summary: Summary) -> str:
    """A row for each pair and metric: the pooled BD-rate in per cent, its interval, its clips."""
    header = ["metric", "test", "anchor", "bd_rate", "low", "high", "akima", "clips", "left_out"]
    rows: list[list[Any]] = []
    for one in summary.pooled:
        mean = one.pchip and [one.pchip.mean, one.pchip.low, one.pchip.high]
        akima, clips = one.akima and one.akima.mean, one.pchip.clips if one.pchip else 0
        left_out = "; ".join(one.left_out)
        names = one.metric, one.test, one.anchor
        rows.append([*names, *(mean or [None] * 3), akima, clips, left_out])
    return _csv(header, rows)


def summary_csv(summary: Summary) -> str:
    """A row for each decoded cell, a column for each setting and metric; then the failed cells."""
    metrics = [metric.name for metric in summary.metrics]
    given = [{**point.settings, **point.way} for point in summary.points]
    choices = list(dict.fromkeys(name for values in given for name in values))
    taken = {*_FIELDS, *metrics}
    columns = [f"{name}_asked" if name in taken else name for name in choices]
    header = [*_FIELDS, *columns, "settings", "way", *metrics, "error"]
    header += _SENDING
    rows: list[list[Any]] = [
        [
            *(getattr(point, name) for name in _FIELDS),
            *(values.get(name) for name in choices),
            settings_label(point.settings),
            settings_label(point.way),
            *(point.scores.get(name) for name in metrics),
            "",
            *point.send_joules.values(),
        ]
        for point, values in zip(summary.points, given, strict=True)
    ]
    for failure in summary.failed:
        known = {"clip": failure.clip, "codec": failure.codec, "key": failure.key}
        known |= {"settings": failure.settings, "error": failure.error}
        rows.append([known.get(name) for name in header])
    return _csv(header, rows)


def frames_csv(cells: Sequence[CellRecord], summary: Summary) -> str:
    """A row for each measured frame of each decoded cell, a column for each metric of frames."""
    metrics = [metric.name for metric in summary.metrics if metric.per_frame]
    header = ["clip", "curve", "settings", "way", "bpp", "frame", *metrics]
    return _csv(header, (row for cell in cells for row in _frames(cell, metrics, summary.stride)))


def _frames(cell: CellRecord, metrics: Sequence[str], stride: int) -> Iterable[list[Any]]:
    for decode in cell.decodes:
        name = curve_name(cell.codec, decode.way)
        label, way = settings_label(cell.settings), settings_label(decode.way)
        columns = [decode.scores[m].values if m in decode.scores else [] for m in metrics]
        for place, frame in enumerate(range(0, cell.frames, stride)):
            values = [column[place] if place < len(column) else None for column in columns]
            yield [clip_label(cell), name, label, way, f"{cell.bpp:.6g}", frame, *values]


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    shown = ([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows)
    return csv_text([header, *shown])
