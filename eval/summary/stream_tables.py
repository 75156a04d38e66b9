"""Tables of what is missing, of our streams, and of the metrics and codecs of the run."""

from collections.abc import Sequence

from gsvc.eval.summary.curves import ABLATION, OURS
from gsvc.eval.summary.points import PointRow, short_labels
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import NONE, Table, number, primary, protocol, rate, signed
from gsvc.eval.summary.times import NO_REFERENCE


def troubles_table(summary: Summary) -> Table:
    """What failed or could not run."""
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
    note = "What failed, what is missing, and why. No other number takes their place."
    return Table("What is missing", note, ["kind", "what", "why"], rows)


def ablation_table(summary: Summary) -> Table:
    """Bits and scores without each scaffold layer."""
    metrics = [m.name for m in primary(summary)]
    rows = []
    for row in summary.ablation:
        scores = [
            f"{number(row.scores.get(name))} ({signed(row.gained.get(name))})" for name in metrics
        ]
        added = NONE if row.added_bits is None else f"{row.added_bits:+d}"
        clip = f"{row.clip}, {row.series}" if row.series else row.clip
        rows.append([f"{clip}: {row.layers}", row.way or NONE, str(row.bits), added, *scores])
    note = (
        "Each row leaves a layer out, or decodes the whole stream another way. Differences are "
        "from the whole stream decoded the first way; those of the score are in brackets. "
        f"{protocol(summary)}"
    )
    return Table("Layer by layer", note, ["layers", "decoded", "bits", "more", *metrics], rows)


def points_table(summary: Summary) -> Table:
    """Every point of a run that has nothing to compare: one codec alone."""
    rows = [] if summary.pooled else summary.points
    return _points("Points", "Nothing to compare in this run.", summary, rows)


def ours_table(summary: Summary) -> Table:
    """Our points in every metric."""
    rows = [row for row in summary.points if row.codec == OURS]
    return _points("Our points", "All points of all codecs are in summary.csv.", summary, rows)


def _points(title: str, note: str, summary: Summary, points: Sequence[PointRow]) -> Table:
    metrics = [metric.name for metric in summary.metrics]
    label = short_labels(summary.points)
    rows = [
        [
            f"{row.clip}, {row.curve}, {label[row.key]}",
            rate(row.bpp),
            f"{row.kbps:.1f}",
            *(number(row.scores.get(name)) for name in metrics),
        ]
        for row in points
    ]
    return Table(title, f"{note} {protocol(summary)}", ["point", "bpp", "kbit/s", *metrics], rows)


def ledgers_table(summary: Summary) -> Table:
    """Our streams' bits by layer."""
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


def seeds_table(summary: Summary) -> Table:
    """The spread of scores over seeds."""
    rows = [
        [
            f"{s.clip}, {s.curve}, {s.settings}",
            s.metric,
            str(s.seeds),
            number(s.mean),
            f"{s.deviation:.2g}",
        ]
        for s in summary.seeds
    ]
    note = f"The same stream decoded with several seeds. {protocol(summary)}"
    return Table(
        "Spread over seeds", note, ["stream", "metric", "seeds", "mean", "standard deviation"], rows
    )


def durations_table(summary: Summary) -> Table:
    """Where the time went."""
    rows = [
        [
            f"{one.kind} {one.name}",
            f"{one.seconds:.0f}",
            f"{one.each:.1f}",
            f"{100 * one.share:.0f} %",
        ]
        for one in summary.durations
    ]
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
