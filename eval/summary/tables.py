"""The summary as tables for people; each says what it measured, where, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gsvc.eval.summary.bootstrap import Pooled
from gsvc.eval.summary.compute_rate import UNITS
from gsvc.eval.summary.curves import ABLATION, OURS
from gsvc.eval.summary.duels import Duel
from gsvc.eval.summary.frontier import PUBLISHED, exponent_of
from gsvc.eval.summary.points import PointRow, mean_of, short_labels
from gsvc.eval.summary.recorded import PRIMARY, MetricInfo
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.times import NO_REFERENCE, REFERENCE

NONE = "-"


@dataclass(frozen=True)
class Table:
    """A titled table of text; `note` says what stands in it, in full sentences."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]] = field(repr=False)


def tables(summary: Summary) -> list[Table]:
    """Every table that has rows, the most telling first."""
    made = [
        _troubles(summary),
        *(_pooled(summary, metric) for metric in _primary(summary)),
        _pooled_others(summary),
        *(_per_clip(summary, metric) for metric in _primary(summary)),
        *(_beside(summary, metric) for metric in _primary(summary)),
        _without_bd_rate(summary),
        _exchange(summary),
        *(_frontier(summary, metric) for metric in _primary(summary)),
        _ablation(summary),
        _costs(summary),
        _ours(summary),
        _ledgers(summary),
        _seeds(summary),
        _metrics(summary),
    ]
    return [table for table in made if table.rows]


def protocol(summary: Summary) -> str:
    """One sentence on what every number of the run stands on."""
    counts = sorted(set(summary.frames.values()))
    frames = (
        f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "no"
    )
    measured = (
        "every frame" if summary.stride == 1 else f"one frame in {summary.stride} from the first"
    )
    return (
        f"{len(summary.frames)} clips, {frames} frames coded of each, quality measured on {measured}; "
        "rates are those of the elementary stream, or of the whole .gsv file without audio."
    )


def _primary(summary: Summary) -> list[MetricInfo]:
    found = [metric for metric in summary.metrics if metric.name in PRIMARY]
    return found or summary.metrics[:1]


def _measured(summary: Summary, metric: MetricInfo) -> str:
    return f"{metric.title} ({metric.version or 'never measured'}). {protocol(summary)}"


def _anchors(found: Sequence[Duel]) -> list[str]:
    return list(dict.fromkeys(duel.anchor for duel in found))


def _troubles(summary: Summary) -> Table:
    rows = [["cell failed", f"{f.clip}, {f.codec}, {f.settings}", f.error] for f in summary.failed]
    if summary.missing:
        rows.append(["not done yet", f"{summary.missing} cells", "run gsvc bench run again"])
    rows += [["not run", name, reason] for name, reason in summary.not_run.items()]
    rows += [["no bits", cell, "left out of every curve"] for cell in summary.without_bits]
    rows += [
        ["no number", f"{g.metric} of {', '.join(g.codecs)} ({g.decodes} decodes)", g.reason]
        for g in summary.gaps
    ]
    clips = {row.clip for row in summary.points if row.encode_ratio is None}
    rows += [["no time ratio", clip, NO_REFERENCE] for clip in sorted(clips)]
    note = "What failed, what is missing, and why; no other number stands in for these."
    return Table("What is missing", note, ["kind", "what", "why"], rows)


def _pooled(summary: Summary, metric: MetricInfo) -> Table:
    mine = [one for one in summary.pooled if one.metric == metric.name]
    anchors = list(dict.fromkeys(one.anchor for one in mine))
    tests = list(dict.fromkeys(one.test for one in mine))
    cell = {(one.test, one.anchor): f"{_interval(one.pchip)} ({_clips(one.pchip)})" for one in mine}
    rows = [[test, *(cell.get((test, anchor), NONE) for anchor in anchors)] for test in tests]
    note = (
        "BD-rate in per cent (negative: fewer bits at equal quality) of the row's lower hull against that "
        "of the column's, PCHIP over the shared range, mean of log ratios over clips, 95 % bootstrap "
        "interval over clips, and in brackets the clips that count; the others are listed under "
        f'"Where there is no BD-rate". {_measured(summary, metric)}'
    )
    title = f"BD-rate pooled over clips, {metric.name}"
    return Table(title, note, ["curve", *(f"against {a}" for a in anchors)], rows)


def _pooled_others(summary: Summary) -> Table:
    shown = {metric.name for metric in _primary(summary)}
    others = [metric.name for metric in summary.metrics if metric.name not in shown]
    mine = [one for one in summary.pooled if one.test.split(",")[0] == OURS]
    pairs = list(dict.fromkeys((one.test, one.anchor) for one in mine))
    value = {(one.metric, one.test, one.anchor): one for one in mine}
    rows = []
    for test, anchor in pairs:
        found = [value.get((name, test, anchor)) for name in others]
        cells = [f"{_interval(one.pchip)} ({_clips(one.pchip)})" if one else NONE for one in found]
        rows.append([f"{test} against {anchor}", *cells])
    note = f"As above, for the other metrics. {protocol(summary)}"
    return Table(
        "BD-rate pooled over clips, other metrics", note, ["pair", *others], rows if others else []
    )


def _per_clip(summary: Summary, metric: MetricInfo) -> Table:
    mine = [d for d in summary.duels if d.metric == metric.name and d.result.pchip is not None]
    rows = [
        [
            f"{d.clip}: {d.test} against {d.anchor}",
            _percent(d.result.pchip),
            _percent(d.result.akima),
            f"{_value(d.shared_values[0])} to {_value(d.shared_values[1])}"
            if d.shared_values
            else "",
            f"{100 * d.result.share:.0f} %",
            d.note,
        ]
        for d in mine
    ]
    note = (
        "The shared range is the quality that both hulls reach, its share that of what either reaches; "
        f"nothing is extrapolated. {_measured(summary, metric)}"
    )
    header = ["pair", "PCHIP", "Akima", "shared range", "share", "note"]
    return Table(f"BD-rate per clip, {metric.name}", note, header, rows)


def _beside(summary: Summary, metric: MetricInfo) -> Table:
    mine = [row for row in summary.beside if row.metric == metric.name]
    anchors = list(dict.fromkeys(name for row in mine for name in row.hulls))
    rows = [
        [
            f"{row.clip}, {row.curve}, level {row.settings.get('level', NONE)}",
            _bpp(row.bpp),
            _value(row.value),
            *(_value(row.hulls.get(anchor)) for anchor in anchors),
        ]
        for row in mine
    ]
    note = (
        "What the lower hull of each conventional codec reaches at our rate, linear between its points; "
        f"{NONE}: it has no point of so few or so many bits. {_measured(summary, metric)}"
    )
    header = ["point", "bpp", "ours", *(f"{anchor} there" for anchor in anchors)]
    return Table(f"At equal bits, {metric.name}", note, header, rows)


def _without_bd_rate(summary: Summary) -> Table:
    names = {metric.name for metric in _primary(summary)}
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
        "Where two hulls share no range of quality there is no BD-rate: here stand their rates (row over "
        f"anchor) at the nearest qualities they have, which differ. {protocol(summary)}"
    )
    header = ["pair", "metric", "why", "rate ratio", "its quality", "anchor's quality", "note"]
    return Table("Where there is no BD-rate", note, header, rows)


def _ratio(summary: Summary, duel: Duel) -> list[str]:
    ratio = duel.result.ratio
    if ratio is None:
        return [NONE, NONE, NONE]
    sign = -1 if summary.metric(duel.metric).higher_is_better else 1
    ends = ratio.test_distance, ratio.anchor_distance
    return [f"{ratio.ratio:.2f}x", *(_value(sign * end) for end in ends)]


def _exchange(summary: Summary) -> Table:
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
    claim, bought = PUBLISHED
    rows += [
        ["published", "-", f"{claim:g}x", f"{bought:g}x", f"{exponent_of(*PUBLISHED):.3f}", "-"]
    ]
    note = (
        "x-fold decoder compute buys y-fold compression, along B*(Q0, C): geometric means over clips and "
        "three qualities each, the exponent fitted to every frontier. "
        + "; ".join(f"{unit}: {meaning}" for unit, meaning in UNITS.items())
        + f". {protocol(summary)}"
    )
    header = ["metric", "compute as", "compute", "compression", "exponent", "frontiers"]
    return Table("What compute buys", note, header, rows if summary.exchange else [])


def _frontier(summary: Summary, metric: MetricInfo) -> Table:
    rows = [
        [
            f"{row.clip}, {row.unit}",
            _value(row.quality),
            f"{row.point.compute:.4g}",
            _bpp(row.point.bpp) if row.point.bpp else "not reached",
            row.point.name or NONE,
        ]
        for row in summary.frontier
        if row.metric == metric.name
    ]
    note = (
        "The least rate that reaches the quality with at most that compute, over our hulls at every number "
        f"of steps. {_measured(summary, metric)}"
    )
    header = ["clip, compute as", "quality", "compute", "bpp", "by"]
    return Table(f"B*(Q0, C), {metric.name}", note, header, rows)


def _ablation(summary: Summary) -> Table:
    metrics = [m.name for m in _primary(summary)]
    rows = []
    for row in summary.ablation:
        scores = [
            f"{_value(row.scores.get(name))} ({_signed(row.gained.get(name))})" for name in metrics
        ]
        added = NONE if row.added_bits is None else f"{row.added_bits:+d}"
        clip = f"{row.clip}, {row.series}" if row.series else row.clip
        rows.append([f"{clip}: {row.layers}", row.way or NONE, str(row.bits), added, *scores])
    note = (
        "Each row leaves a layer out, or decodes the whole stream another way; differences from the whole "
        f"stream decoded the first way, those of the score in brackets. {protocol(summary)}"
    )
    return Table("Layer by layer", note, ["layers", "decoded", "bits", "more", *metrics], rows)


def _costs(summary: Summary) -> Table:
    rows = []
    for curve in dict.fromkeys(row.curve for row in summary.points):
        mine = [row for row in summary.points if row.curve == curve]
        flops, model = (
            mean_of([r.flops_per_pixel for r in mine]),
            mean_of([r.model_bytes for r in mine]),
        )
        memory = [row.peak_memory for row in mine if row.peak_memory is not None]
        rows.append(
            [
                curve,
                _times(mean_of([row.encode_ratio for row in mine])),
                _times(mean_of([row.decode_ratio for row in mine])),
                NONE if flops is None else f"{flops:,.0f}",
                NONE if model is None else f"{model / 1e6:.2f} MB",
                f"{max(memory) / 1e6:.0f} MB" if memory else NONE,
            ]
        )
    note = (
        f"Means over clips and rate points. Times are multiples of encoding with {REFERENCE} on the same "
        "clip in the same run; FLOPs are per pixel of a frame, a multiply-add counts two; memory is the "
        f"peak over that before decoding. {protocol(summary)}"
    )
    header = ["curve", "encode", "decode", "FLOPs a pixel", "model", "peak memory"]
    return Table("What it costs", note, header, rows)


def _ours(summary: Summary) -> Table:
    metrics = [metric.name for metric in summary.metrics]
    label = short_labels(summary.points)
    rows = [
        [
            f"{row.clip}, {row.curve}, {label[row.key]}",
            _bpp(row.bpp),
            f"{row.kbps:.1f}",
            *(_value(row.scores.get(name)) for name in metrics),
        ]
        for row in summary.points
        if row.codec == OURS
    ]
    note = f"All points of all codecs are in summary.csv. {protocol(summary)}"
    return Table("Our points", note, ["point", "bpp", "kbit/s", *metrics], rows)


def _ledgers(summary: Summary) -> Table:
    mine: dict[str, PointRow] = {}
    label = short_labels(summary.points)
    for row in summary.points:
        if row.codec in (OURS, ABLATION):
            mine.setdefault(row.key, row)
    layers = [
        layer
        for layer in dict.fromkeys(name for row in mine.values() for name in row.ledger)
        if any(row.ledger.get(layer) for row in mine.values())
    ]
    rows = [
        [
            f"{row.clip}, {row.codec}, {label[row.key]}",
            *(str(row.ledger.get(layer, 0)) for layer in layers),
            str(row.bits),
        ]
        for row in mine.values()
    ]
    note = f"Bits by layer; they sum to the size of the file. {protocol(summary)}"
    return Table("Bits by layer", note, ["stream", *layers, "sum"], rows)


def _seeds(summary: Summary) -> Table:
    rows = [
        [
            f"{s.clip}, {s.curve}, {s.settings}",
            s.metric,
            str(s.seeds),
            _value(s.mean),
            f"{s.deviation:.2g}",
        ]
        for s in summary.seeds
    ]
    note = f"The same stream decoded with several seeds. {protocol(summary)}"
    return Table(
        "Spread over seeds", note, ["stream", "metric", "seeds", "mean", "standard deviation"], rows
    )


def _metrics(summary: Summary) -> Table:
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


def _interval(pooled: Pooled | None) -> str:
    if pooled is None:
        return "none"
    if pooled.low is None or pooled.high is None:
        return _percent(pooled.mean)
    return f"{_percent(pooled.mean)} [{_percent(pooled.low)}, {_percent(pooled.high)}]"


def _clips(pooled: Pooled | None) -> str:
    return str(pooled.clips if pooled else 0)


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:+.1f}"


def _times(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}x"


def _value(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.4f}"


def _bpp(value: float) -> str:
    return f"{value:.5f}"
