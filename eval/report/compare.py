"""Two runs compared: which settings and results differ, and which run needs fewer bits."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsvc.eval.baselines.code_hash import measured_by
from gsvc.eval.baselines.conventional import RANDOM_ACCESS_SECONDS
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.summary.bd_rate import bd_rate, doubts, pooled_rate
from gsvc.eval.summary.curves import Curve, PointRow, settings_label
from gsvc.eval.summary.rate_tables import Table
from gsvc.eval.summary.summarise import Summary, curves_by_metric, load_kept, summarise

_OF_THE_RUN = ("frames", "stride", "versions", "machine", "commit", "codecs", "gaps")


def compare_runs(a: str | Path, b: str | Path) -> tuple[list[str], list[Table]]:
    """Run B against run A: what to know first, and tables.

    They have BD-rates of B against A, the differences of cells matched by clip, codec, settings
    and way to decode, settings and versions that differ, and how many points of a codec only one of
    the runs has. A run may be its summary.csv (`load_kept`). Raises InputError for what is none.
    """
    first, second = load_kept(a), load_kept(b)
    left, right = (summarise(run.settings, run.cells) for run in (first, second))
    rows = {"A": _by_identity(left), "B": _by_identity(right)}
    metrics = [m.name for m in left.metrics if m.name in {other.name for other in right.metrics}]
    failed = [
        [run, f"{f.clip}, {f.codec}, {f.settings}", f.error]
        for run, summary in (("A", left), ("B", right))
        for f in summary.failed
    ]
    told = [f"{run}: {'. '.join((str(p), *measured_by(p)))}" for run, p in (("A", a), ("B", b))]
    told += _streams_told(rows["A"], rows["B"])
    if len({run.settings["stride"] for run in (first, second) if "stride" in run.settings}) > 1:
        told.append("The strides differ: scores are means over different frames.")
    for clip, frames in left.frames.items():
        if (other := right.frames.get(clip, frames)) != frames:
            told.append(f"{clip} is not compared: A coded {frames} of its frames, B {other}.")
    return told, [
        _bd_rates(left, right, first.cells, second.cells),
        _cells(rows["A"], rows["B"], metrics),
        Table("Failed", "", ["run", "cell", "why"], failed),
        _settings(first.settings, second.settings),
        _only_in_one(rows),
    ]


def _settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    known = [key for key in _OF_THE_RUN if key in a and key in b]  # kept tables know few
    metrics = [
        m for m in a["metrics"] if all(run["metrics"].get(m, {}).get("version") for run in (a, b))
    ]
    flat = [
        _flat({key: run[key] for key in known})
        | {f"metric {name}": run["metrics"][name]["version"] for name in metrics}
        for run in (a, b)
    ]
    rows = [
        [key, flat[0].get(key, "-"), flat[1].get(key, "-")]
        for key in dict.fromkeys([*flat[0], *flat[1]])
        if flat[0].get(key) != flat[1].get(key)
    ]
    return Table("Settings that differ", "", ["setting", "A", "B"], rows)


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}: ")
        else:
            found[before + key] = value if isinstance(value, str) else json.dumps(value)
    return found


_Rows = dict[tuple[str, ...], PointRow]


def _by_identity(summary: Summary) -> _Rows:
    """By clip, codec, settings, way and frames; the usual interval of codecs is no setting."""
    rows: _Rows = {}
    for row in summary.points:
        chosen = dict(row.settings.items() - {("gop", RANDOM_ACCESS_SECONDS)})
        labels = settings_label(chosen), settings_label(row.way)
        rows[row.clip, row.codec, *labels, f"{row.frames} frames"] = row
    return rows


def _streams_told(left: _Rows, right: _Rows) -> list[str]:
    """How many streams are the same, those that are decoded in several ways counted once."""
    both = {
        identity[:3]: row.stream_sha256 == right[identity].stream_sha256
        for identity, row in left.items()
        if identity in right
    }
    told = f"{sum(both.values())} of {len(both)} streams that both have are the same."
    return [told] if both else []


def _only_in_one(rows: Mapping[str, _Rows]) -> Table:
    others = (("A", rows["A"].keys() - rows["B"]), ("B", rows["B"].keys() - rows["A"]))
    found = Counter((run, codec) for run, lone in others for _, codec, *_ in lone)
    told = [[run, codec, str(count)] for (run, codec), count in sorted(found.items())]
    return Table("Only in one", "", ["run", "codec", "points"], told)


def _cells(left: _Rows, right: _Rows, metrics: Sequence[str]) -> Table:
    rows = []
    for identity, row in left.items():
        other = right.get(identity)
        if other is not None:
            same = row.frames_sha256 == other.frames_sha256
            rate = f"{100 * (other.bits / row.bits - 1):+.2f}" if row.bits else "-"
            told = [", ".join(filter(None, identity)), rate, "same" if same else "other"]
            told += [_change(row.scores.get(name), other.scores.get(name)) for name in metrics]
            told.append(_change(row.encode_ratio, other.encode_ratio, 2))
            rows.append([*told, _change(row.decode_ratio, other.decode_ratio, 2)])
    header = ["cell", "bits, %", "pictures", *metrics, "encode ratio", "decode ratio"]
    note = "B less A. Pictures of one stream may differ by rounding between processors."
    return Table("Cells in both", note, header, rows)


def _bd_rates(
    a: Summary, b: Summary, a_cells: Sequence[CellRecord], b_cells: Sequence[CellRecord]
) -> Table:
    left = curves_by_metric(a_cells, a.metrics, a.codecs)
    right = curves_by_metric(b_cells, a.metrics, a.codecs)
    rows = []
    for metric in a.metrics:
        theirs = {(curve.clip, curve.name): curve for curve in right[metric.name]}
        pairs: dict[str, list[tuple[Curve, Curve]]] = {}
        for curve in left[metric.name]:
            other = theirs.get((curve.clip, curve.name))
            if other and a.frames[curve.clip] == b.frames[curve.clip]:
                pairs.setdefault(curve.name, []).append((curve, other))
        rows += [[name, metric.name, *_pooled(mine)] for name, mine in pairs.items()]
    note = "PCHIP over the shared range of the hulls, in per cent; negative: B needs fewer bits."
    header = ["curve", "metric", "pooled", "clips", "notes"]
    return Table("BD-rate of B against A", note, header, rows)


def _pooled(pairs: Sequence[tuple[Curve, Curve]]) -> list[str]:
    results = [(anchor.clip, bd_rate(anchor.hull, test.hull)) for anchor, test in pairs]
    pooled = pooled_rate(result.pchip for _, result in results)
    told = [(clip, result.note or doubts([result])[2:]) for clip, result in results]
    notes = ", ".join(f"{clip}: {note}" for clip, note in told if note)
    mean = f"{pooled.mean:+.2f}" if pooled else "none"
    return [mean, str(pooled.clips if pooled else 0), notes or "-"]


def _change(before: float | None, after: float | None, digits: int = 4) -> str:
    return "-" if before is None or after is None else f"{after - before:+.{digits}f}"
