"""Everything that is computed from a run's cells, in one value for JSON, tables and plots."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from gsvc.eval.bench.store import CellRecord
from gsvc.eval.late_loading import CodecFacts
from gsvc.eval.summary.bd_comparisons import (
    BdComparison,
    BesideRow,
    Headline,
    PooledBdComparison,
    SlideshowTest,
    bd_comparisons,
    beside_rows,
    headline,
    pooled_bd_comparisons,
    slideshow_tests,
)
from gsvc.eval.summary.bd_rate import NO_BITS, NO_OVERLAP, NO_POINTS, SINGLE_POINT
from gsvc.eval.summary.compute_frontier import (
    ExchangeRow,
    FrontierRow,
    exchange_rows,
    frontier_rows,
)
from gsvc.eval.summary.curves import (
    ABLATION,
    Curve,
    Failure,
    MetricInfo,
    PointRow,
    Unmeasured,
    by_curve,
    clip_label,
    codecs_of,
    curves,
    failures,
    family_curves,
    gaps,
    mean_score,
    metrics_of,
    point_rows,
    settings_label,
    without_bits,
)

LAYERS_SETTING = "tools"
"""The setting that says which layers are on; the other settings distinguish series."""


@dataclass(frozen=True)
class AblationRow:
    """One set of layers, decoded one way."""

    clip: str
    series: str
    layers: str
    way: str
    bits: int
    bpp: float
    ledger: dict[str, int]
    scores: dict[str, float | None]
    added_bits: int | None
    """Bits less those of the whole stream decoded the first way; None in that row itself."""
    gained: dict[str, float | None]
    """Scores less those of the whole stream decoded the first way; None in that row itself."""


def ablation_rows(cells: Sequence[CellRecord], metrics: Sequence[str]) -> list[AblationRow]:
    """Rows by clip and series, in the order of the cells; the last cell is the whole stream."""
    mine = [cell for cell in cells if cell.codec == ABLATION and not cell.error]
    seen = [{(key, str(value)) for key, value in cell.settings.items()} for cell in mine]
    constant = {key for key, _ in set.intersection(*seen)} if seen else set()
    series: dict[tuple[str, str], list[CellRecord]] = defaultdict(list)
    for cell in mine:
        hidden = constant | {LAYERS_SETTING}
        name = settings_label({k: v for k, v in cell.settings.items() if k not in hidden})
        series[clip_label(cell), name].append(cell)
    return [
        row for (clip, name), group in series.items() for row in _rows(clip, name, group, metrics)
    ]


def _rows(
    clip: str, series: str, group: Sequence[CellRecord], metrics: Sequence[str]
) -> Iterator[AblationRow]:
    """Every cell decoded the first way, then the last cell, the whole stream, the other ways."""
    first = [(cell, way) for cell in group for way in [*by_curve(cell)][:1]]
    others = [*by_curve(group[-1])][1:]
    whole = _scores(*first[-1], metrics)
    for cell, way in [*first, *((group[-1], way) for way in others)]:
        scores = _scores(cell, way, metrics)
        is_whole = (cell, way) == first[-1]
        yield AblationRow(
            clip=clip,
            series=series,
            layers=str(cell.settings.get(LAYERS_SETTING, "")),
            way=way.removeprefix(cell.codec).removeprefix(", "),
            bits=cell.bits,
            bpp=cell.bpp,
            ledger=cell.ledger,
            scores=scores,
            added_bits=None if is_whole else cell.bits - group[-1].bits,
            gained={m: None if is_whole else _less(scores[m], whole[m]) for m in metrics},
        )


def _scores(cell: CellRecord, way: str, metrics: Sequence[str]) -> dict[str, float | None]:
    return {metric: mean_score(by_curve(cell)[way], metric) for metric in metrics}


def _less(score: float | None, whole: float | None) -> float | None:
    return None if score is None or whole is None else score - whole


@dataclass(frozen=True)
class SeedSpread:
    """One stream decoded with `seeds` seeds: mean and standard deviation (n - 1) of one metric."""

    clip: str
    curve: str
    settings: str
    metric: str
    seeds: int
    mean: float
    deviation: float


def seed_spreads(cells: Sequence[CellRecord], metrics: Sequence[str]) -> list[SeedSpread]:
    """For every stream that was decoded with more than one seed, each metric's spread."""
    spreads = []
    for cell in cells:
        for name, decodes in by_curve(cell).items():
            for metric in metrics if len(decodes) > 1 else ():
                scores = [d.scores[metric].mean for d in decodes if metric in d.scores]
                means = [mean for mean in scores if mean is not None]
                if len(means) > 1:
                    spreads.append(
                        SeedSpread(
                            clip_label(cell),
                            name,
                            settings_label(cell.settings),
                            metric,
                            len(means),
                            fmean(means),
                            stdev(means),
                        )
                    )
    return spreads


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


SCHEMA = 1


@dataclass(frozen=True)
class Summary:
    """A run's numbers."""

    schema: int
    """Version of the JSON's shape."""
    stride: int
    """Quality was measured on one frame in so many."""
    frames: dict[str, int]
    """Frames coded, by clip label."""
    versions: dict[str, str]
    """Of the codecs, by name."""
    codecs: dict[str, CodecFacts]
    metrics: list[MetricInfo]
    headline: Headline
    slideshow: list[SlideshowTest]
    points: list[PointRow]
    beside: list[BesideRow]
    duels: list[BdComparison]
    pooled: list[PooledBdComparison]
    frontier: list[FrontierRow]
    exchange: list[ExchangeRow]
    ablation: list[AblationRow]
    seeds: list[SeedSpread]
    durations: list[Duration]
    failed: list[Failure]
    gaps: list[Unmeasured]
    without_bits: list[str]
    missing: int
    """Cells that are planned but not done."""
    not_run: dict[str, str]
    """Codecs, metrics and clips that could not run at all, and why."""

    def metric(self, name: str) -> MetricInfo:
        """The metric of that name."""
        return next(metric for metric in self.metrics if metric.name == name)


def curves_by_metric(
    cells: Sequence[CellRecord], metrics: Sequence[MetricInfo], codecs: Mapping[str, CodecFacts]
) -> dict[str, list[Curve]]:
    """Every curve of the run, by metric."""
    anchors = {name for name, facts in codecs.items() if facts.is_anchor}
    return {one.name: curves(cells, one.name, one.higher_is_better, anchors) for one in metrics}


def summarise(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> Summary:
    """Compute it all. `settings` are the values of run.json."""
    metrics, codecs = metrics_of(settings, cells), codecs_of(settings, cells)
    names = [metric.name for metric in metrics]
    rows = point_rows(cells)
    found = curves_by_metric(cells, metrics, codecs)
    all_duels = _duels(found.values(), codecs)
    pooled, unmeasured = pooled_bd_comparisons(all_duels), gaps(cells)
    not_run = {str(name): str(reason) for name, reason in settings.get("gaps", {}).items()}
    frontiers = [row for name in names for row in frontier_rows(found[name], rows)]
    return Summary(
        schema=SCHEMA,
        stride=int(settings.get("stride", 1)),
        frames={clip_label(cell): cell.frames for cell in cells},
        versions={cell.codec: cell.codec_version for cell in cells},
        codecs=codecs,
        metrics=metrics,
        headline=headline(pooled, metrics, unmeasured, not_run),
        slideshow=slideshow_tests(all_duels, found, settings.get("moving", {})),
        points=rows,
        beside=[row for name in names for row in beside_rows(found[name])],
        duels=all_duels,
        pooled=pooled,
        frontier=frontiers,
        exchange=exchange_rows(frontiers),
        ablation=ablation_rows(cells, names),
        seeds=seed_spreads(cells, names),
        durations=durations(cells),
        failed=failures(cells),
        gaps=unmeasured,
        without_bits=without_bits(cells),
        missing=max(0, len(settings.get("cells", ())) - len(cells)),
        not_run=not_run,
    )


def _duels(
    by_metric: Iterable[list[Curve]], codecs: Mapping[str, CodecFacts]
) -> list[BdComparison]:
    """Of all curves, joint hulls among them."""
    return [
        one for mine in by_metric for one in bd_comparisons([*mine, *family_curves(mine, codecs)])
    ]


_SAID = {
    NO_OVERLAP: "the two reach no common quality, so add rates that bring them together",
    SINGLE_POINT: "one has a single rate, so add another",
    NO_POINTS: "one has no number",
    NO_BITS: "one has streams of no bits",
}


def reasons_without_rate(summary: Summary) -> Iterator[str]:
    """A sentence for each reason, with the pairs that have no BD-rate on any clip for it."""
    found: dict[str, dict[str, list[str]]] = {}
    for duel in summary.pooled:
        if duel.pchip is None:
            pairs = found.setdefault(_reason(duel), {})
            pairs.setdefault(f"{duel.test} against {duel.anchor}", []).append(duel.metric)
    for reason, pairs in found.items():
        listed = "; ".join(f"{pair} by {', '.join(names)}" for pair, names in pairs.items())
        yield f"No BD-rate, {reason}: {listed}."


def _reason(duel: PooledBdComparison) -> str:
    notes = dict.fromkeys(entry.rpartition(": ")[2] for entry in duel.left_out)
    return " or ".join(_SAID.get(note, note) for note in notes) or "no clip has one"
