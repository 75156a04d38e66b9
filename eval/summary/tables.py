"""The summary as tables for people."""

from gsvc.eval.summary.compute_tables import costs_table, exchange_table, frontier_table
from gsvc.eval.summary.headline_tables import headline_table, slideshow_table
from gsvc.eval.summary.people_table import people_table
from gsvc.eval.summary.rate_tables import (
    beside_table,
    per_clip_table,
    pooled_others_table,
    pooled_table,
    without_bd_rate_table,
)
from gsvc.eval.summary.stream_tables import (
    ablation_table,
    durations_table,
    ledgers_table,
    metrics_table,
    ours_table,
    points_table,
    seeds_table,
    troubles_table,
)
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import Table, primary


def tables(summary: Summary) -> list[Table]:
    """Every table that has rows, the most telling first."""
    made = [
        headline_table(summary),
        slideshow_table(summary),
        people_table(summary),
        troubles_table(summary),
        *(pooled_table(summary, metric) for metric in primary(summary)),
        pooled_others_table(summary),
        points_table(summary),
        *(per_clip_table(summary, metric) for metric in primary(summary)),
        *(beside_table(summary, metric) for metric in primary(summary)),
        without_bd_rate_table(summary),
        exchange_table(summary),
        *(frontier_table(summary, metric) for metric in primary(summary)),
        ablation_table(summary),
        costs_table(summary),
        ours_table(summary),
        ledgers_table(summary),
        seeds_table(summary),
        durations_table(summary),
        metrics_table(summary),
    ]
    return [table for table in made if table.rows]
