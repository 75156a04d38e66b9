"""What a run's tables need to know of each metric that it measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.eval.bench.named import make_metric
from gsvc.eval.bench.record import CellRecord

PRIMARY = ("st_lpips_alex", "st_lpips_vgg")


@dataclass(frozen=True)
class MetricInfo:
    """A metric of a run; `version` names package and variant, and is empty where it never gave a number."""

    name: str
    unit: str
    higher_is_better: bool
    per_frame: bool
    version: str

    @property
    def title(self) -> str:
        """For tables and axes: name, unit, which way is better."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}, {'higher' if self.higher_is_better else 'lower'} is better"


def metrics_of(cells: Sequence[CellRecord]) -> list[MetricInfo]:
    """Every metric that any cell was scored with, the primary ones first.

    Raises ConfigError for one that this version of gsvc does not know.
    """
    versions: dict[str, str] = {}
    for cell in cells:
        for decode in cell.decodes:
            for name, scores in decode.scores.items():
                versions[name] = versions.get(name) or scores.version
    ordered = sorted(versions, key=lambda n: PRIMARY.index(n) if n in PRIMARY else len(PRIMARY))
    return [_info(name, versions[name]) for name in ordered]


def _info(name: str, version: str) -> MetricInfo:
    metric = make_metric(name)
    return MetricInfo(name, metric.unit, metric.higher_is_better, metric.per_frame, version)
