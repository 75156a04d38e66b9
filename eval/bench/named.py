"""What a run is asked for: codecs, metrics and clips by name, ours or a user's `module:Class`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, getdoc, signature
from math import inf
from typing import cast

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.weights.extras import find_class
from gsvc.datasets.clips.sets import SETS, find_clips
from gsvc.eval.baselines import codecs, find_codec
from gsvc.eval.baselines.base import Codec, Option, Value, several
from gsvc.eval.metrics import find_metric, metrics
from gsvc.eval.metrics.base import Metric

_SPEC = re.compile(r"(?P<name>[\w.]+:[A-Za-z_]\w*|[\w.+-]+)(?::(?P<options>[\w-]+=.+))?")


@dataclass(frozen=True)
class CodecSpec:
    """A codec and its options, as they are sent to other processes and written into run.json."""

    name: str
    options: tuple[tuple[str, Option], ...] = ()

    def __str__(self) -> str:
        options = ",".join(f"{key}={_text(value)}" for key, value in self.options)
        return f"{self.name}:{options}" if options else self.name


def codec_spec(text: str) -> CodecSpec:
    """From NAME[:key=value,...]; several values of one key are joined by +: crf=30+40.

    Raises ConfigError when the text is not of that form.
    """
    match = _SPEC.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is no codec: write NAME or NAME:key=value,key=value")
    pairs = [part.partition("=") for part in (match["options"] or "").split(",") if part]
    if any(not key or not value for key, _, value in pairs):
        raise ConfigError(f"{text!r}: write the options as key=value,key=value")
    options = {key: tuple(map(_value, value.split("+"))) for key, _, value in pairs}
    single = ((key, many[0] if len(many) == 1 else many) for key, many in options.items())
    return CodecSpec(match["name"], tuple(single))


def make_codec(spec: CodecSpec) -> Codec:
    """The codec. Raises ConfigError for an unknown name or option."""
    options = dict(spec.options)
    if ":" not in spec.name:
        return find_codec(spec.name, **options)
    return cast(Codec, find_class(spec.name)(**options))


def make_metric(name: str) -> Metric:
    """The metric. Raises ConfigError for an unknown name."""
    if ":" not in name:
        return find_metric(name)
    return cast(Metric, find_class(name)())


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _text(value: Option | None) -> str:
    return "" if value is None else "+".join(map(str, several(value)))


@dataclass(frozen=True)
class Condition:
    """How much of each clip is coded, and how often a receiver may join."""

    frames: int | None
    longest: float | None
    """Seconds of each clip at most."""
    gop: int
    """Most seconds between random access points, for every codec that has them; 0: no limit."""


CONDITIONS = {"whole": Condition(None, 30, 0), "join": Condition(97, None, 4)}
"""Of the evaluation protocol: a file, and a broadcast."""


def under(condition: Condition, spec: CodecSpec) -> CodecSpec:
    """The codec with the condition's `gop`, unless it has one of its own or knows none."""
    if any(name == "gop" for name, _ in spec.options):
        return spec
    kept = replace(spec, options=(*spec.options, ("gop", condition.gop)))
    try:
        make_codec(kept)
    except ConfigError:
        return spec
    return kept


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


def _first_line(kind: object) -> str:
    return (getdoc(kind) or "").partition("\n")[0]


SIZES = ("288", "480", "native")


@dataclass(frozen=True)
class RunSettings:
    """What was asked for. Raises ConfigError for what no run can do."""

    clips: tuple[str, ...]
    """Clips, sets and folders by name."""
    codecs: tuple[CodecSpec, ...]
    metrics: tuple[str, ...]
    sizes: tuple[str, ...] = ("288",)
    """Of `SIZES`: lines of the clips as coded."""
    anchors: tuple[str, ...] = ()
    """Codecs that the others are measured against; none: the conventional ones."""
    frames: int | None = 97
    """Frames from the start of each clip, None for all."""
    longest: float | None = None
    """Seconds of each clip at most, from its start; None for no limit."""
    stride: int = 7
    """Quality is measured on one frame in so many."""
    kept_together: int | None = None
    """Decodes of a cell or of several that are done before any is kept; None: as many as are scored
    together, which is fastest."""

    def __post_init__(self) -> None:
        if not (self.clips and self.codecs and self.sizes):
            raise ConfigError("a run needs at least one clip, one codec and one size")
        if unknown := set(self.sizes) - set(SIZES):
            raise ConfigError(f"size {min(unknown)!r}: take one of {', '.join(SIZES)}")
        if self.frames is not None and self.frames < 1:
            raise ConfigError(f"frames {self.frames}: at least 1")
        if self.longest is not None and not 0 < self.longest < inf:
            raise ConfigError(f"longest {self.longest}: seconds above 0")
        if self.stride < 1:
            raise ConfigError(f"stride {self.stride}: at least 1")
