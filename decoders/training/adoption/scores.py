"""Scores of weights on held-out clips, by the two judges of the headline.

Each clip is coded at levels 1 and 2, and the streams are decoded whole in every way that is
compared. No judge was trained on.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.frames import Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS
from gsvc.codec.bitstream.scaffold import Place
from gsvc.datasets.clips.clip import TestClip
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.decoders.interpolation.rife import Rife
from gsvc.decoders.keyframes.refiner import Refiner
from gsvc.decoders.streams.reconstruction import Reconstruction
from gsvc.decoders.streams.timeline import DrawnFrame, Strict
from gsvc.eval.baselines.gsvc import coded, decoded
from gsvc.eval.metrics import find_metric

LEVELS = 1, 2
_STRIDE = 7
"""Every so many frames ST-LPIPS is measured, as in the benchmark; CVVDP sees all."""

Way = Callable[[bytes], list[Picture]]
"""A stream, decoded."""


class Score(NamedTuple):
    """Of one way to decode, on average over clips."""

    cvvdp: float
    """JOD; higher is better."""
    st_lpips_vgg: float
    """Lower is better."""


@dataclass(frozen=True)
class Scores:
    """All that was compared."""

    clips: Sequence[str]
    frames: int
    """Of all clips together."""
    bpp: Mapping[int, float]
    """Bits per pixel by level."""
    ways: Mapping[str, Mapping[int, Score]]
    """Score by way and level."""

    def mean(self, way: str) -> Score:
        """Over the levels."""
        return Score(*np.mean(list(self.ways[way].values()), axis=0).tolist())


_LEAST = Score(0.01, -0.0005)
"""By how much the judges must differ: half precision alone changes them by a hundredth of it."""


def is_better(one: Score, other: Score) -> bool:
    """Whether both judges say so."""
    by_sight, by_texture = np.subtract(one, other)
    return bool(by_sight >= _LEAST.cvvdp and by_texture <= _LEAST.st_lpips_vgg)


def score(
    clips: Sequence[Path], frames: int, ways: Mapping[str, Way], tell: Callable[[str], None]
) -> Scores:
    """Code and judge the first `frames` frames of each clip.

    Clips are scaled to the protocol's 288 lines. `tell` is called before each stream. Errors as of
    `load_clip` and of metrics.
    """
    found: dict[str, dict[int, list[Score]]] = {way: {n: [] for n in LEVELS} for way in ways}
    rates: dict[int, list[float]] = {level: [] for level in LEVELS}
    count = 0
    for path in clips:
        pictures, rate = load_clip(path, frames)
        clip = TestClip(path.name, pictures, rate)
        count += len(pictures)
        for level in LEVELS:
            tell(f"{path.name}, level {level}")
            data = _coded(clip, level)
            rates[level].append(8 * len(data) / sum(p.shape[0] * p.shape[1] for p in pictures))
            judged = _judged(clip, [way(data) for way in ways.values()])
            for way, one in zip(ways, judged, strict=True):
                found[way][level].append(one)
    means = {
        way: {level: Score(*np.mean(some, axis=0).tolist()) for level, some in levels.items()}
        for way, levels in found.items()
    }
    bpp = {level: float(np.mean(some)) for level, some in rates.items()}
    return Scores([path.name for path in clips], count, bpp, means)


def _judged(clip: TestClip, tests: Sequence[Sequence[Picture]]) -> list[Score]:
    indices = range(0, len(clip.frames), _STRIDE)
    columns = [
        np.nanmean(find_metric(judge).measure(clip, tests, indices), axis=1).tolist()
        for judge in Score._fields
    ]
    return [Score(*row) for row in zip(*columns, strict=True)]


def _coded(clip: TestClip, level: int) -> bytes:
    form = clip.format
    video = VideoFormat(form.width, form.height, 1 / clip.frame_rate, clip.frame_rate)
    return coded(clip.frames, video, EncoderSettings(level=level))


def refined(refiner: Refiner | None, steps: int) -> Way:
    """Frames with a refiner; 0 steps: without."""
    return partial(decoded, settings=DecoderSettings(steps=steps), refiner=refiner)


def moved(rife: Rife) -> Way:
    """Frames between key pictures by learned motion, the others as they are decoded."""

    def way(data: bytes) -> list[Picture]:
        return [_between(rife, one) for one in _drawn(data)]

    return way


def _drawn(data: bytes) -> Iterator[DrawnFrame]:
    reader = StreamReader(io.BytesIO(data))
    groups = GroupReader(reader.header, DEFAULT_LIMITS)
    chain = Reconstruction(reader.header, groups, attrgetter("picture"))
    timeline = Strict(reader.header, chain, DEFAULT_LIMITS)
    for packet in reader:
        yield from timeline.frames(packet)


def _between(rife: Rife, drawn: DrawnFrame) -> Picture:
    decoded, number = drawn.interval, drawn.number
    if decoded is None or decoded.before is None or decoded.is_key(number):
        return drawn.frame.pixels
    interval = decoded.interval
    if interval.place is not Place.BETWEEN or interval.dissolves:
        return drawn.frame.pixels
    time = number / interval.length
    return rife.between(decoded.before.decoded, decoded.key.decoded, time)
