"""Where a run's time went: by metric, by codec, and the cell that took longest."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.summary.curves import clip_label, settings_label


@dataclass(frozen=True)
class Duration:
    """The time of one metric or codec, as long as a single worker would take."""

    kind: str
    """"metric", "codec" (encoding and decoding) or "cell"."""
    name: str
    seconds: float
    each: float
    """Seconds for one decoded clip, of a codec for one encode with its decodes."""
    share: float
    """Of the time of all metrics and codecs."""


def durations(cells: Sequence[CellRecord]) -> list[Duration]:
    """Metrics and codecs, the slowest first, then the slowest cell.

    Metrics of a run made before their time was kept are missing.
    """
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in cells:
        times["codec", cell.codec].append(_coding(cell))
        for decode in cell.decodes:
            for name, scores in decode.scores.items():
                times["metric", name].append(scores.seconds)
    whole = sum(map(sum, times.values())) or 1.0
    found = [
        Duration(kind, name, sum(each), sum(each) / len(each), sum(each) / whole)
        for (kind, name), each in times.items()
        if sum(each)
    ]
    found.sort(key=lambda one: -one.seconds)
    slowest = max(cells, key=_all, default=None)
    if slowest is not None and found:
        label = f"{clip_label(slowest)}, {slowest.codec}, {settings_label(slowest.settings)}"
        found.append(Duration("cell", label, _all(slowest), _all(slowest), _all(slowest) / whole))
    return found


def slowest(found: Sequence[Duration]) -> list[str]:
    """The slowest metric, codec and cell: "metric cvvdp (2400 s, 5.1 s each)"."""
    first: dict[str, str] = {}
    for one in found:
        text = f"{one.kind} {one.name} ({one.seconds:.0f} s, {one.each:.1f} s each)"
        first.setdefault(one.kind, text)
    return list(first.values())


def _coding(cell: CellRecord) -> float:
    return cell.encode_seconds + sum(decode.seconds for decode in cell.decodes)


def _all(cell: CellRecord) -> float:
    scores = (one.seconds for decode in cell.decodes for one in decode.scores.values())
    return _coding(cell) + sum(scores)
