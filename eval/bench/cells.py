"""What a run is asked for, its cells with their keys, and the batches in which they are completed.

Codecs, metrics and clips go by name, ours or a user's `module:Class`. A cell is a clip at a size,
coded by one codec with one setting, with every way to decode it. The cells of a batch share the
features of the source. By thumbnails, swapped streams are refused rather than scored.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, getdoc, signature
from math import inf
from typing import NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.extras import find_class
from gsvc.datasets.clips.clip_reader import SIZES, ClipFormat
from gsvc.datasets.clips.sets import SETS, find_clips
from gsvc.eval.baselines import SHORT_SPECS, check_options, codecs, find_codec
from gsvc.eval.baselines.base import Codec, Option, Settings, Value, several
from gsvc.eval.bench.store import SCHEMA, CellRecord, DecodeRecord, MetricScores
from gsvc.eval.late_loading import users_line
from gsvc.eval.metrics import find_metric, metrics
from gsvc.eval.metrics.base import Metric

_SPEC = re.compile(r"(?P<name>[\w.]+:[A-Za-z_]\w*|[\w.+-]+)(?::(?P<options>[\w-]+=.+))?")


@dataclass(frozen=True)
class CodecSpec:
    """A codec and its options, as they are sent to other processes and written into run.json."""

    name: str
    options: tuple[tuple[str, Option], ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether it is a user's `module:Class`."""
        return ":" in self.name

    def __str__(self) -> str:
        options = ",".join(f"{key}={_text(value)}" for key, value in self.options)
        return f"{self.name}:{options}" if options else self.name


def codec_spec(text: str) -> CodecSpec:
    """From NAME[:key=value,...]; several values of one key are joined by +: crf=30+40.

    Options after a name of `SHORT_SPECS` replace its own. Raises ConfigError for another form.
    """
    name, _, own = text.partition(":")
    if name in SHORT_SPECS:
        text = f"{SHORT_SPECS[name]},{own}"
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
    """The codec. Raises ConfigError for an unknown name or option, or a class that is no codec."""
    options = dict(spec.options)
    if not spec.is_own:
        return find_codec(spec.name, **options)
    return cast(Codec, _own(spec.name, "gsvc.eval.baselines.base.Codec", _OF_CODEC, options))


def make_codecs(specs: Iterable[CodecSpec]) -> list[tuple[CodecSpec, Codec]]:
    """Each with its codec. Raises as `make_codec`, and ConfigError for names that mislead."""
    made = [(spec, make_codec(spec)) for spec in specs]
    places: dict[str, str] = {}
    for spec, codec in made:
        if (other := places.setdefault(codec.name, spec.name)) != spec.name:
            raise ConfigError(f"{other} and {spec.name} are both called {codec.name}: rename one")
        if "," in codec.name:  # which ends a codec's name in that of a curve
            raise ConfigError(f"{spec.name}: the name {codec.name!r} has a comma: choose another")
    return made


def make_metric(name: str) -> Metric:
    """The metric. Raises ConfigError for an unknown name, or a class that is no metric."""
    if ":" not in name:
        return find_metric(name)
    return cast(Metric, _own(name, "gsvc.eval.metrics.base.Metric", _OF_METRIC, {}))


_OF_CODEC = (
    *("name", "suffix", "facts", "version", "rate_points", "ways_to_decode"),
    *("encode", "decode", "compute"),
)
_OF_METRIC = ("name", "unit", "higher_is_better", "per_frame", "version", "measure")


def _own(name: str, base: str, members: Iterable[str], options: Mapping[str, Option]) -> object:
    """An object of a user's class, with the members of `base`."""
    try:
        check_options(kind := find_class(name), name, options)
        made: object = kind(**options)
    except ConfigError as error:
        raise ConfigError(f"{users_line(error)}{error}") from error
    except Exception as error:  # of a user's class, such as a method that it lacks
        raise ConfigError(f"{users_line(error)}{name}: {error}") from error
    if lacks := [member for member in members if not hasattr(made, member)]:
        raise ConfigError(f"{name} lacks {', '.join(lacks)}: inherit from {base}, and add the rest")
    return made


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _text(value: Option | None) -> str:
    return "" if value is None else "+".join(map(str, several(value)))


class Condition(NamedTuple):
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
    for name, spec in SHORT_SPECS.items():
        rows.append((name, spec.partition(":")[2].replace(",", " "), "The results' opponent."))
    return ("codec", "options", "what"), rows


def listed_metrics() -> tuple[tuple[str, ...], Rows]:
    """Header and rows: name, unit, which way is better, what it is a number of, and what it is."""
    ways, parts = ("lower", "higher"), ("clip", "frame")
    rows = [
        (m.name, m.unit, ways[m.higher_is_better], parts[m.per_frame], _first_line(type(m)))
        for m in metrics().values()
    ]
    return ("metric", "unit", "better", "for each", "what"), rows


def listed_clips() -> tuple[tuple[str, ...], Rows]:
    """Header and rows: name to ask for it by, and what it shows."""
    rows = [(f"{one.set}/{one.name}", one.description) for one in find_clips(SETS)]
    return ("clip", "what"), rows


def _options(kind: Callable[..., Codec]) -> str:
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
    condition: str | None = None
    """The name of the condition that the codecs and the next two have been set to."""
    frames: int | None = 97
    """Frames from the start of each clip, None for all."""
    longest: float | None = None
    """Seconds of each clip at most, from its start; None for no limit."""
    stride: int = 7
    """Quality is measured on one frame in so many."""

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


Thumbnails = NDArray[np.float32]
"""Shape (5, 9, 16): luma, 0-255, of five frames spread over a clip."""

_COUNT, _HEIGHT, _WIDTH = 5, 9, 16
_MARGIN = 2.0
"""Clips may show the same place: another clip must be so many times nearer than the own one."""


def thumbnails(frames: Sequence[Picture]) -> Thumbnails:
    """The thumbnails of a clip: RGB uint8 pictures (H, W, 3), at least one."""
    spread = np.linspace(0, len(frames) - 1, _COUNT).round().astype(int)
    small = [cv2.resize(frames[i], (_WIDTH, _HEIGHT), interpolation=cv2.INTER_AREA) for i in spread]
    return np.stack(small).astype(np.float32) @ np.array([0.2126, 0.7152, 0.0722], np.float32)


def belongs_to(
    decoded: Thumbnails, own: Thumbnails, others: Mapping[str, Thumbnails]
) -> str | None:
    """The name of another clip that the pictures clearly belong to, else None."""
    distances = {name: _distance(decoded, other) for name, other in others.items()}
    nearest = min(distances, key=distances.__getitem__, default=None)
    if nearest is None or distances[nearest] * _MARGIN >= _distance(decoded, own):
        return None
    return nearest


def _distance(a: Thumbnails, b: Thumbnails) -> float:
    return float(np.abs(a - b).mean())


Values = dict[str, int | float | str]


@dataclass(frozen=True)
class ClipFacts:
    """A clip of the run as it was read."""

    name: str
    size: str
    """"288", "480" or "native"."""
    format: ClipFormat
    sha256: str
    """Of its pixels."""
    moving: float
    """The share of its pixels that move, see `movement.moving_share`."""
    thumbnails: Thumbnails = field(repr=False, compare=False)
    lines: int
    """Short side of the source in pixels."""


@dataclass(frozen=True)
class Cell:
    """How to make a cell, and what its record must contain to be complete."""

    clip: ClipFacts
    codec: CodecSpec
    codec_name: str
    codec_version: str
    suffix: str
    """Of the file with the stream."""
    settings: Values
    ways: tuple[Values, ...]
    """To decode the stream."""
    metrics: Mapping[str, str]
    """Versions of the wanted metrics, by name."""
    gaps: Mapping[str, str]
    """Why this machine cannot compute a metric, by its name."""

    @property
    def key(self) -> str:
        """Hash of everything that the stream depends on."""
        clip = self.clip
        parts = {
            "schema": SCHEMA,
            "clip": clip.name,
            "size": clip.size,
            "source": clip.sha256,
            "frame_rate": str(clip.format.frame_rate),
            "codec": self.codec_name,
            "version": self.codec_version,
            "settings": self.settings,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """For people: clip, size, codec, settings."""
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.clip.name} {self.clip.size} {self.codec_name} {settings}".strip()

    def empty_record(self) -> CellRecord:
        """The record before anything was done."""
        clip = self.clip
        return CellRecord(
            key=self.key,
            clip=clip.name,
            size=clip.size,
            width=clip.format.width,
            height=clip.format.height,
            frame_rate=str(clip.format.frame_rate),
            frames=clip.format.frame_count,
            source_sha256=clip.sha256,
            codec=self.codec_name,
            codec_version=self.codec_version,
            settings=self.settings,
        )

    def lacks(self, record: CellRecord | None) -> bool:
        """Whether something is still to be coded, decoded or scored."""
        return record is None or bool(record.error) or any(self.lacking_ways(record))

    def lacking_ways(self, record: CellRecord) -> Iterator[tuple[Values, tuple[str, ...]]]:
        """Ways that are still to be decoded, and the metrics to compute on each."""
        for way in self.ways:
            decoded = find_way(record, way)
            scored = {name: one.version for name, one in decoded.scores.items()} if decoded else {}
            names = tuple(name for name, now in self.metrics.items() if scored.get(name) != now)
            if decoded is None or names:
                yield way, names

    def with_gaps(self, record: CellRecord) -> CellRecord:
        """The record with reasons in place of metrics that cannot be computed here."""
        absent = {name: MetricScores(None, gap=reason) for name, reason in self.gaps.items()}
        decodes = [replace(one, scores={**absent, **one.scores}) for one in record.decodes]
        return replace(record, decodes=decodes)


@dataclass(frozen=True)
class CellJob:
    """A cell to complete."""

    cell: Cell
    record: CellRecord | None = None
    stream: bytes | None = field(default=None, repr=False)

    @property
    def decodes(self) -> int:
        """How many ways are still to be decoded."""
        return len(list(self.cell.lacking_ways(self.record or self.cell.empty_record())))


def find_way(record: CellRecord, way: Settings) -> DecodeRecord | None:
    """What is kept of one way to decode."""
    return next((one for one in record.decodes if one.way == dict(way)), None)


_BATCH_DECODES = 6  # decoded clips that are scored together
_BATCH_BYTES = 2**30  # of decoded pictures held at once


def batches(jobs: Sequence[CellJob]) -> Iterator[list[CellJob]]:
    """Jobs of one clip, size and codec, a few at a time; codecs with many decodes come first."""
    groups: dict[tuple[str, str, CodecSpec], list[CellJob]] = {}
    for job in jobs:
        clip = job.cell.clip
        groups.setdefault((clip.name, clip.size, job.cell.codec), []).append(job)
    clips = list(dict.fromkeys(group[:2] for group in groups))
    heaviest = {group: max(job.decodes for job in mine) for group, mine in groups.items()}
    for group in sorted(groups, key=lambda group: (clips.index(group[:2]), -heaviest[group])):
        yield from _cut(groups[group])


def batch_limit(clip: ClipFormat) -> int:
    """How many decoded clips are held and scored together."""
    fit = _BATCH_BYTES // (3 * clip.width * clip.height * clip.frame_count)
    return max(1, min(_BATCH_DECODES, fit))


def _cut(jobs: Sequence[CellJob]) -> Iterator[list[CellJob]]:
    most = batch_limit(jobs[0].cell.clip.format)
    batch: list[CellJob] = []
    for job in jobs:
        if batch and sum(one.decodes for one in [*batch, job]) > most:
            yield batch
            batch = []
        batch.append(job)
    yield batch
