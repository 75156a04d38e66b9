"""The cells of a run and their keys.

A cell is a clip at a size, coded by one codec with one setting, with every way to decode it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from gsvc.datasets.clips import ClipFormat
from gsvc.eval.bench.named import CodecSpec
from gsvc.eval.bench.record import SCHEMA, CellRecord, DecodeRecord, Scores
from gsvc.eval.bench.thumbnails import Thumbnails
from gsvc.eval.codecs.base import Settings

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
            frame_rate=str(Fraction(clip.format.frame_rate)),
            frames=clip.format.frames,
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
        absent = {name: Scores(None, gap=reason) for name, reason in self.gaps.items()}
        decodes = [replace(one, scores={**absent, **one.scores}) for one in record.decodes]
        return replace(record, decodes=decodes)


@dataclass(frozen=True)
class Job:
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
