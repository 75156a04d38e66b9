"""What a run consists of: cells, their keys, and the batches in which the missing ones are made.

A cell is a clip at a size, coded by one codec with one setting, with every way to decode it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from gsvc.codec.errors import ConfigError
from gsvc.datasets.clips import ClipFormat
from gsvc.eval.bench.named import CodecSpec
from gsvc.eval.bench.pairing import Thumbnails
from gsvc.eval.bench.record import SCHEMA, CellRecord, DecodeRecord, Scores
from gsvc.eval.codecs.base import Settings

SIZES = ("288", "480", "native")
Values = dict[str, int | float | str]

_BATCH_DECODES = 6
"""Decoded clips that are scored together: the source's features are computed once for all of them."""
_BATCH_BYTES = 2**30
"""Of decoded pictures held at once."""


@dataclass(frozen=True)
class RunSettings:
    """What was asked for. Raises ConfigError for what no run can do.

    `frames` is the number of frames from the start of each clip, None for all; quality is measured on
    every `stride`-th of them.
    """

    clips: tuple[str, ...]
    codecs: tuple[CodecSpec, ...]
    metrics: tuple[str, ...]
    sizes: tuple[str, ...] = ("288",)
    frames: int | None = 97
    stride: int = 7

    def __post_init__(self) -> None:
        if not (self.clips and self.codecs and self.sizes):
            raise ConfigError("a run needs at least one clip, one codec and one size")
        if unknown := set(self.sizes) - set(SIZES):
            raise ConfigError(f"size {min(unknown)!r}: take one of {', '.join(SIZES)}")
        if self.frames is not None and self.frames < 1:
            raise ConfigError(f"frames {self.frames}: at least 1")
        if self.stride < 1:
            raise ConfigError(f"stride {self.stride}: at least 1")


@dataclass(frozen=True)
class Source:
    """A clip of the run as it was read: its format, the hash of its pixels, its thumbnails."""

    clip: str
    size: str
    format: ClipFormat
    sha256: str
    thumbnails: Thumbnails = field(repr=False, compare=False)


@dataclass(frozen=True)
class Cell:
    """One cell to have: how to make it, and what its record must contain to be complete.

    `metrics` are the wanted metrics with their versions; `gaps` those that this machine cannot compute,
    with the reason.
    """

    source: Source
    codec: CodecSpec
    codec_name: str
    codec_version: str
    suffix: str
    settings: Values
    ways: tuple[Values, ...]
    metrics: Mapping[str, str]
    gaps: Mapping[str, str]

    @property
    def key(self) -> str:
        """Hash of everything that the stream depends on."""
        source, clip = self.source, self.source.format
        parts = {
            "schema": SCHEMA,
            "clip": source.clip,
            "size": source.size,
            "source": source.sha256,
            "frame_rate": str(clip.frame_rate),
            "codec": self.codec_name,
            "version": self.codec_version,
            "settings": self.settings,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """For people: clip, size, codec, settings."""
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.source.clip} {self.source.size} {self.codec_name} {settings}".strip()

    def empty_record(self) -> CellRecord:
        """The record before anything was done."""
        clip = self.source.format
        return CellRecord(
            key=self.key,
            clip=self.source.clip,
            size=self.source.size,
            width=clip.width,
            height=clip.height,
            frame_rate=str(Fraction(clip.frame_rate)),
            frames=clip.frames,
            source_sha256=self.source.sha256,
            codec=self.codec_name,
            codec_version=self.codec_version,
            settings=self.settings,
        )

    def lacks(self, record: CellRecord | None) -> bool:
        """Whether something is still to be coded, decoded or scored."""
        return record is None or bool(record.error) or any(self.lacking_ways(record))

    def lacking_ways(self, record: CellRecord) -> Iterator[tuple[Values, tuple[str, ...]]]:
        """Ways to decode again or for the first time, and the metrics to compute on the result."""
        for way in self.ways:
            decoded = find_way(record, way)
            names = tuple(n for n in self.metrics if decoded is None or self._unscored(decoded, n))
            if decoded is None or names:
                yield way, names

    def with_gaps(self, record: CellRecord) -> CellRecord:
        """The record with the reasons for metrics that cannot be computed here; numbers stay."""
        absent = {name: Scores(None, gap=reason) for name, reason in self.gaps.items()}
        decodes = [replace(one, scores={**absent, **one.scores}) for one in record.decodes]
        return replace(record, decodes=decodes)

    def _unscored(self, decoded: DecodeRecord, metric: str) -> bool:
        scores = decoded.scores.get(metric)
        return scores is None or scores.version != self.metrics[metric]


@dataclass(frozen=True)
class Job:
    """A cell to complete, with what is there of it already."""

    cell: Cell
    record: CellRecord | None = None
    stream: bytes | None = field(default=None, repr=False)

    @property
    def decodes(self) -> int:
        """How many ways are still to be decoded."""
        return len(list(self.cell.lacking_ways(self.record or self.cell.empty_record())))


def values_of(settings: Settings) -> Values:
    """A plain copy."""
    return dict(settings)


def find_way(record: CellRecord, way: Settings) -> DecodeRecord | None:
    """What is kept of one way to decode."""
    return next((one for one in record.decodes if one.way == dict(way)), None)


def frame_indices(frames: int, stride: int) -> list[int]:
    """The frames on which quality is measured."""
    return list(range(0, frames, stride))


def batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs of one clip, size and codec together, a few at a time, the many-decodes codecs first."""
    groups: dict[tuple[str, str, CodecSpec], list[Job]] = {}
    for job in jobs:
        source = job.cell.source
        groups.setdefault((source.clip, source.size, job.cell.codec), []).append(job)
    clips = list(dict.fromkeys(group[:2] for group in groups))
    heaviest = sorted(
        groups, key=lambda g: (clips.index(g[:2]), -max(j.decodes for j in groups[g]))
    )
    for group in heaviest:
        yield from _cut(groups[group])


def batch_limit(clip: ClipFormat) -> int:
    """How many decoded clips are held and scored together."""
    fit = _BATCH_BYTES // (3 * clip.width * clip.height * clip.frames)
    return max(1, min(_BATCH_DECODES, fit))


def _cut(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    most = batch_limit(jobs[0].cell.source.format)
    batch: list[Job] = []
    for job in jobs:
        if batch and sum(one.decodes for one in [*batch, job]) > most:
            yield batch
            batch = []
        batch.append(job)
    yield batch
