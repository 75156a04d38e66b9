"""What the metrics say of two videos."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsvc.codec.errors import ConfigError, GsvcError
from gsvc.eval.bench.named import make_metric
from gsvc.eval.bench.record import Scores
from gsvc.eval.bench.scoring import reason, score
from gsvc.eval.metrics.base import Metric
from gsvc.eval.score.pair import Pair


@dataclass(frozen=True)
class Measured:
    """One metric of two videos."""

    name: str
    """As it was asked for: a name, or a user's module:Class."""
    metric: Metric
    scores: Scores
    """One value for each index measured, or a gap with its reason."""

    @property
    def better(self) -> str:
        """Which values are better."""
        return "higher" if self.metric.higher_is_better else "lower"


def named_metrics(names: Sequence[str]) -> dict[str, Metric]:
    """The metrics by name. Raises ConfigError for an unknown one."""
    return {name: make_metric(name) for name in names}


def check_stride(stride: int) -> None:
    """Raise ConfigError for a stride below 1."""
    if stride < 1:
        raise ConfigError(f"stride {stride}: must be 1 or more")


def indices_of(pair: Pair, stride: int) -> range:
    """The frames that are measured: one in `stride`. Raises ConfigError for one below 1."""
    check_stride(stride)
    return range(0, len(pair.test), stride)


def measure(
    pair: Pair, metrics: Mapping[str, Metric], indices: Sequence[int], say: Callable[[str], None]
) -> list[Measured]:
    """Every metric at the frames `indices`; one that fails is a gap. `say` gets a line for each."""
    found = []
    for number, (name, metric) in enumerate(metrics.items(), 1):
        say(f"{name}, {number} of {len(metrics)}")
        found.append(Measured(name, metric, _scores(name, metric, pair, indices)))
    return found


def _scores(name: str, metric: Metric, pair: Pair, indices: Sequence[int]) -> Scores:
    try:
        version = metric.version()
    except GsvcError as error:
        return Scores(None, gap=reason(error))
    return score(name, version, pair.source, [pair.test], indices)[0]
