"""Everything computed from a run's cells, in one value for JSON, tables and plots."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.facts import CodecFacts
from gsvc.eval.summary.ablation import AblationRow, ablation_rows
from gsvc.eval.summary.beside import BesideRow, beside_rows
from gsvc.eval.summary.compute_rate import ExchangeRow, FrontierRow, exchange_rows, frontier_rows
from gsvc.eval.summary.curves import Curve, clip_label, curves
from gsvc.eval.summary.duels import Duel, PooledDuel, duels, pooled_duels
from gsvc.eval.summary.durations import Duration, durations
from gsvc.eval.summary.families import family_curves
from gsvc.eval.summary.headline import Headline, headline
from gsvc.eval.summary.points import PointRow, point_rows
from gsvc.eval.summary.recorded import MetricInfo, codecs_of, metrics_of
from gsvc.eval.summary.seeds import SeedSpread, seed_spreads
from gsvc.eval.summary.slideshow import SlideshowTest, slideshow_tests
from gsvc.eval.summary.troubles import Failure, Unmeasured, failures, gaps, without_bits

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
    duels: list[Duel]
    pooled: list[PooledDuel]
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
    pooled, unmeasured = pooled_duels(all_duels), gaps(cells)
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


def _duels(by_metric: Iterable[list[Curve]], codecs: Mapping[str, CodecFacts]) -> list[Duel]:
    """Of all curves, joint hulls among them."""
    return [one for mine in by_metric for one in duels([*mine, *family_curves(mine, codecs)])]
