"""What the benchmark knows by name: codecs with their options, metrics, clips."""

from collections.abc import Callable, Sequence
from inspect import Parameter, getdoc, signature

from gsvc.datasets.sets import SETS, find_clips
from gsvc.eval.codecs import codecs
from gsvc.eval.codecs.base import Codec
from gsvc.eval.codecs.options import Option, several
from gsvc.eval.metrics import metrics

Rows = Sequence[tuple[str, ...]]


def listed_codecs() -> tuple[tuple[str, ...], Rows]:
    """Header and rows: name, options with what they are unless given, and what it is."""
    rows = [(name, _options(kind), _first_line(kind)) for name, kind in codecs().items()]
    return ("codec", "options", "what"), rows


def listed_metrics() -> tuple[tuple[str, ...], Rows]:
    """Header and rows: name, unit, which way is better, what it is a number of, and what it is."""
    rows = [
        (
            metric.name,
            metric.unit,
            "higher" if metric.higher_is_better else "lower",
            "frame" if metric.per_frame else "clip",
            _first_line(type(metric)),
        )
        for metric in metrics().values()
    ]
    return ("metric", "unit", "better", "for each", "what"), rows


def listed_clips() -> tuple[tuple[str, ...], Rows]:
    """Header and rows: name to ask for it by, and what it shows."""
    sources = find_clips(SETS)
    rows = [(f"{one.set}/{one.name}", one.description) for one in sources]
    return ("clip", "what"), rows


def _options(kind: Callable[..., Codec]) -> str:
    """As they are written on the command line."""
    parameters = signature(kind).parameters.values()
    named = [one for one in parameters if one.kind is not Parameter.VAR_KEYWORD]
    found: dict[str, Option | None] = {}
    for point in kind().rate_points():
        for name, value in point.items():
            found[name] = tuple(dict.fromkeys((*several(found.get(name) or ()), value)))
    if len(named) == len(parameters):
        found = {one.name: found.get(one.name) for one in named}
    found |= {one.name: one.default for one in named if one.default is not None}
    return " ".join(f"{name}={_text(value)}" for name, value in found.items())


def _text(value: Option | None) -> str:
    return "" if value is None else "+".join(map(str, several(value)))


def _first_line(kind: object) -> str:
    return (getdoc(kind) or "").partition("\n")[0]
