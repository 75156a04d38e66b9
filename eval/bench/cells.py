"""The cells of a run, their keys, and the batches in which workers complete them.

A cell is a clip at a size, coded by one codec with one setting, with every way to decode it. The
cells of a batch share the features of the source. Thumbnails tell when a decoded clip is another
clip's: swapped streams must not be scored.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import ClipFormat
from gsvc.eval.baselines.base import Settings
from gsvc.eval.bench.named import CodecSpec
from gsvc.eval.bench.store import SCHEMA, CellRecord, DecodeRecord, MetricScores

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


_BATCH_DECODES = 6
"""Decoded clips that are scored together."""
_BATCH_BYTES = 2**30
"""Of decoded pictures held at once."""


def batches(jobs: Sequence[CellJob], most: int | None = None) -> Iterator[list[CellJob]]:
    """Jobs of one clip, size and codec, a few at a time; codecs with many decodes come first.

    `most`: decodes of a batch of several jobs, None for `batch_limit`.
    """
    groups: dict[tuple[str, str, CodecSpec], list[CellJob]] = {}
    for job in jobs:
        clip = job.cell.clip
        groups.setdefault((clip.name, clip.size, job.cell.codec), []).append(job)
    clips = list(dict.fromkeys(group[:2] for group in groups))
    heaviest = sorted(
        groups, key=lambda g: (clips.index(g[:2]), -max(j.decodes for j in groups[g]))
    )
    for group in heaviest:
        yield from _cut(groups[group], most)


def batch_limit(clip: ClipFormat) -> int:
    """How many decoded clips are held and scored together."""
    fit = _BATCH_BYTES // (3 * clip.width * clip.height * clip.frames)
    return max(1, min(_BATCH_DECODES, fit))


def _cut(jobs: Sequence[CellJob], most: int | None) -> Iterator[list[CellJob]]:
    fit = batch_limit(jobs[0].cell.clip.format)
    most = fit if most is None else min(fit, most)
    batch: list[CellJob] = []
    for job in jobs:
        if batch and sum(one.decodes for one in [*batch, job]) > most:
            yield batch
            batch = []
        batch.append(job)
    yield batch
