"""Tables of rates at equal quality, and of quality at equal rate."""

from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.duels import Duel
from gsvc.eval.summary.recorded import MetricInfo
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import (
    NONE,
    Table,
    basis,
    number,
    percent,
    pooled_text,
    primary,
    protocol,
    rate,
)


def pooled_table(summary: Summary, metric: MetricInfo) -> Table:
    """BD-rates of every curve against every anchor, pooled over clips."""
    mine = [one for one in summary.pooled if one.metric == metric.name]
    anchors = list(dict.fromkeys(one.anchor for one in mine))
    tests = list(dict.fromkeys(one.test for one in mine))
    cell = {(one.test, one.anchor): pooled_text(one.pchip) for one in mine}
    rows = [[test, *(cell.get((test, anchor), NONE) for anchor in anchors)] for test in tests]
    note = (
        "BD-rate in per cent (negative: fewer bits at equal quality) of the row's lower hull "
        "against the column's, by PCHIP over the shared range: mean of log ratios over clips, 95 % "
        "bootstrap interval over clips, and in brackets the clips that count; the others are "
        f'listed under "Where there is no BD-rate". {basis(summary, metric)}'
    )
    title = f"BD-rate pooled over clips, {metric.name}"
    return Table(title, note, ["curve", *(f"against {a}" for a in anchors)], rows)


def pooled_others_table(summary: Summary) -> Table:
    """Ours, or without ours every curve, in the metrics that have no table of their own."""
    shown = {metric.name for metric in primary(summary)}
    others = [metric.name for metric in summary.metrics if metric.name not in shown]
    mine = [one for one in summary.pooled if one.test.split(",")[0] == OURS] or summary.pooled
    pairs = list(dict.fromkeys((one.test, one.anchor) for one in mine))
    value = {(one.metric, one.test, one.anchor): one for one in mine}
    rows = []
    for test, anchor in pairs:
        found = [value.get((name, test, anchor)) for name in others]
        cells = [pooled_text(one.pchip) if one else NONE for one in found]
        rows.append([f"{test} against {anchor}", *cells])
    note = f"As above, for the other metrics. {protocol(summary)}"
    return Table(
        "BD-rate pooled over clips, other metrics", note, ["pair", *others], rows if others else []
    )


def per_clip_table(summary: Summary, metric: MetricInfo) -> Table:
    """BD-rates clip by clip."""
    rows = [
        [
            f"{d.clip}: {d.test} against {d.anchor}",
            percent(d.result.pchip),
            percent(d.result.akima),
            " to ".join(map(number, d.shared_values or ())),
            f"{100 * d.result.share:.0f} %",
            d.note,
        ]
        for d in summary.duels
        if d.metric == metric.name and d.result.pchip is not None
    ]
    note = (
        "The shared range is the quality that both hulls reach, its share that of what either "
        f"reaches; nothing is extrapolated. {basis(summary, metric)}"
    )
    header = ["pair", "PCHIP", "Akima", "shared range", "share", "note"]
    return Table(f"BD-rate per clip, {metric.name}", note, header, rows)


def beside_table(summary: Summary, metric: MetricInfo) -> Table:
    """Our points and the hulls of the anchors at the same rate."""
    mine = [row for row in summary.beside if row.metric == metric.name]
    anchors = list(dict.fromkeys(name for row in mine for name in row.hulls))
    rows = [
        [
            f"{row.clip}, {row.curve}, level {row.settings.get('level', NONE)}",
            rate(row.bpp),
            number(row.value),
            *(number(row.hulls.get(anchor)) for anchor in anchors),
        ]
        for row in mine
    ]
    note = (
        "What the lower hull of each conventional codec reaches at our rate, linear between its "
        f"points; {NONE}: our rate is outside its range. {basis(summary, metric)}"
    )
    header = ["point", "bpp", "ours", *(f"{anchor} there" for anchor in anchors)]
    return Table(f"At equal bits, {metric.name}", note, header, rows)


def without_bd_rate_table(summary: Summary) -> Table:
    """Pairs whose hulls share no range of quality."""
    names = {metric.name for metric in primary(summary)}
    names |= {one.metric for one in summary.pooled if one.pchip is None}
    rows = [
        [
            f"{d.clip}: {d.test} against {d.anchor}",
            d.metric,
            d.result.note,
            *_ratio(summary, d),
            d.note,
        ]
        for d in summary.duels
        if d.metric in names and d.result.note
    ]
    note = (
        "Two hulls that share no range of quality have no BD-rate. The rate ratio (row over "
        f"anchor) is at the nearest qualities they have, which differ. {protocol(summary)}"
    )
    header = ["pair", "metric", "why", "rate ratio", "its quality", "anchor's quality", "note"]
    return Table("Where there is no BD-rate", note, header, rows)


def _ratio(summary: Summary, duel: Duel) -> list[str]:
    ratio = duel.result.ratio
    if ratio is None:
        return [NONE, NONE, NONE]
    sign = -1 if summary.metric(duel.metric).higher_is_better else 1
    ends = ratio.test_distance, ratio.anchor_distance
    return [f"{ratio.ratio:.2f}x", *(number(sign * end) for end in ends)]
