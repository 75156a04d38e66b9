"""How much a metric varies with the seed of a sampled decode."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.summary.curves import by_curve, clip_label, settings_label


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
