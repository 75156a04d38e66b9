"""What trials tell of a video: how quality and time follow from the rate, and what a file will be.

The quick trial codes the beginning with the fastest preset at three levels. Where there is no video
yet, its class stands for it: means over development clips of 288 lines, with look-ahead and without
(`classes.json`, made by `python tools/class_trials.py`). How far the clips of a class lie apart
widens what is foretold of quality. A forecast of an encode works as ab-av1 does for other encoders:
parts are encoded with the same settings, decoded and compared, and the rest is taken to be like
them.
"""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from statistics import fmean, stdev
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encode_job import EncodeJob
from gsvc.codec.api.encoder import Encoder, config_of
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.api.reports import EncodeReport
from gsvc.codec.bitstream.container import StreamReader, decoded_frames
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.stream_info import StreamIndex
from gsvc.codec.media.places import display_name
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.planning.budgets import VideoClass
from gsvc.codec.planning.machine_profile import Profile, least_seconds, packaged
from gsvc.codec.planning.process import spare_clock
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.encoders.search.rate_control import FIXED_BITS

Judge = Callable[[Sequence[Picture], Sequence[Picture], Fraction], float | None]
"""Frames as they were, as decoded, and their rate → JOD; None of what cannot be judged."""
TRIAL_LEVELS = 0, 1, 3
_MOST_FRAMES, _LEAST_FRAMES, _PIXELS = 97, 25, 20_000_000
"""Frames of a trial: as many as have so many pixels together, within bounds."""
_EVERY = 6  # one frame in so many is compared with its source
_C1, _C2 = 6.5025, 58.5225
"""Constants of SSIM for luma of 0 to 255."""


@dataclass(frozen=True)
class TrialPoint:
    """What came out at one level."""

    bpp: float
    """Bits per pixel of a frame, headers included."""
    likeness: float
    """-ln(1 - SSIM) of luma at half the size: follows CVVDP best (docs/planning.md)."""
    keys: float
    """Coded pictures in a frame, 0 to 1."""
    seconds: float
    """Encoding, per pixel of a frame."""
    jod: float | None = None
    """What the judge said; None: there was none."""


@dataclass(frozen=True)
class VideoTrial:
    """Of one video."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    rate: float
    """Frames per second."""
    frames: int
    """Of the whole video, as far as it tells; else of the trial."""
    points: tuple[TrialPoint, ...]
    """By rising rate."""
    low_delay: bool = False
    """Whether it was coded without look-ahead."""
    tried: int = 97
    """Frames of the trial."""
    jod_apart: float = 0.0
    """How far videos of its class lie apart, where it is a class's (`classes`)."""
    likeness_apart: float = 0.0
    """The same of likeness."""

    @property
    def pixels(self) -> int:
        """Of a frame."""
        return self.width * self.height


def try_video(
    source: str,
    *,
    low_delay: bool = False,
    judge: Judge | None = None,
    clock: Callable[[], float] = spare_clock,
    **opened: Any,
) -> VideoTrial:
    """The trial of a file; `judge`, `clock` as of `try_pictures`, others of `open_video`."""
    with open_video(source, **opened) as video:
        form, total = video.format, video.frame_count
        most = min(_MOST_FRAMES, max(_LEAST_FRAMES, _PIXELS // (form.width * form.height)))
        frames = [frame for frame, _ in zip(video, range(most), strict=False)]
    form = replace(form, time_base=1 / form.frame_rate, pixel_aspect=Fraction(1))
    pictures = [frame.pixels for frame in frames]
    trial = try_pictures(pictures, form, low_delay=low_delay, judge=judge, clock=clock)
    points = trial.points
    if clock is spare_clock and os.path.isfile(source):
        told = os.stat(source)
        taken = fmean(point.seconds for point in points)
        what = f"{source} {told.st_size} {told.st_mtime_ns} {form} {opened} {low_delay}"
        share = least_seconds(what, taken) / taken
        points = tuple(replace(point, seconds=share * point.seconds) for point in points)
    return replace(trial, points=points, frames=max(total or 0, trial.frames))


def try_pictures(
    pictures: Sequence[Picture],
    video: VideoFormat,
    *,
    low_delay: bool = False,
    judge: Judge | None = None,
    clock: Callable[[], float] = spare_clock,
) -> VideoTrial:
    """The trial of pictures, RGB uint8 (H, W, 3); `video` has a time base of one frame.

    `judge`: of every frame at every level; without it likeness foretells quality. `clock`: seconds.
    """
    trials = _Trials(pictures, video, low_delay, judge, clock)
    points = [trials.point(level) for level in TRIAL_LEVELS]
    return VideoTrial(
        width=video.width, height=video.height, rate=float(video.frame_rate), frames=len(pictures),
        points=tuple(sorted(points, key=lambda point: point.bpp)), low_delay=low_delay,
        tried=len(pictures),
    )  # fmt: skip


@dataclass(frozen=True)
class _Trials:
    """What the trials of a video share."""

    pictures: Sequence[Picture]
    video: VideoFormat
    low_delay: bool
    judge: Judge | None
    clock: Callable[[], float]

    def point(self, level: int) -> TrialPoint:
        """Encode at a level, decode, compare."""
        settings = EncoderSettings(level=level, preset="fast", low_delay=self.low_delay)
        began = self.clock()
        with Encoder(self.video, settings) as encoder:
            frames = (Frame(picture, pts) for pts, picture in enumerate(self.pictures))
            packets = [packet for frame in frames for packet in encoder.encode(frame)]
            packets += encoder.flush()
        seconds, header = self.clock() - began, encoder.header
        with Decoder(header, DecoderSettings(steps=0)) as decoder:
            shown = [f.pixels for f in decoded_frames(decoder, ((p, True) for p in packets))]
        pictures, pixels = self.pictures, self.video.width * self.video.height * len(self.pictures)
        size = len(header.to_bytes()) + sum(len(packet.to_bytes()) for packet in packets)
        parser = GroupReader(header)
        keys = sum(len(parser.read(packet).units) for packet in packets if packet.is_picture)
        pairs = zip(pictures[::_EVERY], shown[::_EVERY], strict=True)
        unlike = 1 - fmean(likeness(a, b) for a, b in pairs)
        return TrialPoint(
            bpp=8 * size / pixels,
            likeness=float(-np.log(max(1e-4, unlike))),
            keys=keys / len(pictures),
            seconds=seconds / pixels,
            jod=self.judge and self.judge(pictures, shown, self.video.frame_rate),
        )


def likeness(a: Picture, b: Picture) -> float:
    """SSIM (Wang et al., 2004) of luma at half the size, -1 to 1; RGB uint8 (H, W, 3)."""
    luma = (gray(picture).astype(np.float32) for picture in (a, b))
    x, y = (cv2.resize(one, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for one in luma)
    mx, my = _soft(x), _soft(y)
    vx, vy, both = _soft(x * x) - mx * mx, _soft(y * y) - my * my, _soft(x * y) - mx * my
    light = (2 * mx * my + _C1) / (mx * mx + my * my + _C1)
    return float((light * (2 * both + _C2) / (vx + vy + _C2)).mean())


def _soft(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), 1.5), np.float32)


def trial_of(kind: VideoClass, profile: Profile, *, low_delay: bool = False) -> VideoTrial:
    """What a trial of such a video would come to, on the machine of `profile`. Bits per pixel are
    those of the class's clips, whatever the size."""
    told = packaged("classes.json")[kind.name]["live" if low_delay else "file"]
    unit = profile.encode["fast"].frame
    points = [TrialPoint(**{**one, "seconds": one["seconds"] * unit}) for one in told["points"]]
    return VideoTrial(
        width=kind.width, height=kind.height, rate=kind.rate,
        frames=round(kind.rate * kind.seconds), points=tuple(points), low_delay=low_delay,
        jod_apart=told["jod_apart"], likeness_apart=told["likeness_apart"],
    )  # fmt: skip


def clips_of(kind: VideoClass) -> int:
    """How many clips its class was measured on."""
    return int(packaged("classes.json")[kind.name]["clips"])


_SECONDS, _LEAST = 4.0, 2.0
"""Of a sample; of a short video, which has fewer before they are shorter."""
_SHARE, _ALL = 0.2, 24.0
"""Of a video that is tried at most: it is to take a quarter of the time. Seconds of one that is
tried whole: samples would be too short, and its stream can be kept."""
_FEWEST, _MOST, _MINUTES = 3, 8, 5
"""Samples: of a video of a minute, of any, and one more for each so many minutes."""
_FIXED = FIXED_BITS // 8


@dataclass(frozen=True)
class EncodedSample:
    """A part of a video, encoded."""

    job: EncodeJob
    """The part."""
    report: EncodeReport
    """What came out."""
    data: bytes
    """The stream."""

    def surplus(self, whole: float) -> float:
        """Bytes of its first picture that groups in the whole video do not take: they are longer.

        The sample begins with an intra picture. `whole`: seconds of the video, the longest group.
        """
        reader = StreamReader(io.BytesIO(self.data))
        first = next((packet for packet in reader if packet.is_picture), None)
        settings, header = self.job.settings, reader.header
        if first is None or settings.target_bpp(header.format) is not None:
            return 0.0
        group = settings.longest_group()
        if not settings.low_delay:
            group = config_of(settings, header).longest_group / float(header.format.frame_rate)
        intra = len(GroupReader(header).read(first).units[0])
        return intra * (1 - min(1.0, self.report.duration / min(group, whole)))

    @cached_property
    def ssim(self) -> float:
        """Mean SSIM of its frames, one in six of them, decoded at steps 0."""
        pairs = enumerate(self.pairs(DecoderSettings(steps=0)))
        return fmean(likeness(a.pixels, b.pixels) for n, (a, b) in pairs if n % _EVERY == 0)

    def pairs(self, settings: DecoderSettings) -> Iterator[tuple[Frame, Frame]]:
        """Each frame as it was and as it is decoded."""
        index = StreamIndex(io.BytesIO(self.data))
        with self.job.open() as video, Decoder(index.header, settings) as decoder:
            yield from zip(video, index.decode(decoder, 0, index.frames), strict=False)


@dataclass(frozen=True)
class EncodeForecast:
    """What to expect of a whole video."""

    frames: int
    """Of the whole video."""
    duration: float
    """Seconds."""
    size: int
    """Bytes of the stream, sound included."""
    spread: float
    """Standard error of the size in proportion to it: how unlike the samples are; 0 for all."""
    bitrate: float
    """Bits per second of the pictures, with headers."""
    bpp: float
    """The same as bits per pixel of a frame."""
    elapsed: float
    """Seconds that encoding would take on this machine."""
    ssim: float
    """Mean SSIM of luma at half the size, decoded at steps 0, -1 to 1."""
    sampled: float
    """Seconds of video in the samples."""
    samples: int
    """How many."""

    @property
    def video_size(self) -> float:
        """Bytes of the pictures, with headers."""
        return self.bitrate * self.duration / 8

    @property
    def total_bitrate(self) -> float:
        """Bits per second of the stream, sound included."""
        return 8 * self.size / self.duration


@dataclass(frozen=True)
class SampleSpans:
    """Which parts of a video are samples."""

    frames: int
    """Of the whole video."""
    seconds: float
    """Of the whole video."""
    starts: Sequence[float]
    """Seconds after its beginning at which samples begin."""
    length: int
    """Frames of a sample."""


def spans_of(job: EncodeJob, *, whole: bool = True) -> SampleSpans:
    """Parts of four seconds, evenly spread, of a fifth at most; with `whole` all of a short video.

    Raises InputError for what does not tell how long it is, and is no file to read twice.
    """
    with job.open() as video:
        count, form = video.frame_count, video.format
    if count is None and os.path.isfile(job.source):
        count = round(job.seconds * form.frame_rate)
    if count is None:
        raise InputError(
            f"{display_name(job.source)}: does not tell how long it is: encode it at once, or put "
            "it into .mp4 or .mkv"
        )
    seconds = float(count / form.frame_rate)
    number = min(_MOST, _FEWEST + int(seconds / 60 / _MINUTES))
    if seconds <= (_ALL if whole else _LEAST):
        return SampleSpans(count, seconds, (0.0,), count)
    number = max(1, min(number, int(_SHARE * seconds / _LEAST)))
    length = min(_SECONDS, _SHARE * seconds / number)
    starts = [(n + 0.5) / number * seconds - length / 2 for n in range(number)]
    return SampleSpans(count, seconds, starts, ceil(length * form.frame_rate))


def take_samples(job: EncodeJob, spans: SampleSpans) -> Iterator[EncodedSample]:
    """Encode each. Raises ConfigError for a task, which sends no pictures."""
    if job.settings.task is not None:
        raise ConfigError("a task sends no pictures whose size could be predicted: leave it out")
    for start in spans.starts:
        part = replace(job, start=job.start + start, frames=spans.length, texts=False)
        part = job if spans.length == spans.frames else part
        data, report = part.encoded(part.settings)
        yield EncodedSample(part, report, data)


def forecast(spans: SampleSpans, samples: Sequence[EncodedSample]) -> EncodeForecast:
    """What samples say of the whole video."""
    reports = [sample.report for sample in samples]
    surplus = [sample.surplus(spans.seconds) for sample in samples]
    sampled = sum(report.duration for report in reports)
    sizes = [one.size - _FIXED - more for one, more in zip(reports, surplus, strict=True)]
    rates = [size / one.duration for size, one in zip(sizes, reports, strict=True)]
    whole = spans.seconds / sampled
    size = _FIXED + spans.seconds * sum(sizes) / sampled
    sound = whole * sum(report.audio_size for report in reports)
    one, several = reports[0], len(reports) > 1
    spread = stdev(rates) / sqrt(len(rates)) if several else 0.0  # the standard error of their mean
    return EncodeForecast(
        frames=spans.frames, duration=spans.seconds, size=round(size),
        spread=spread * spans.seconds / size, bitrate=8 * (size - sound) / spans.seconds,
        bpp=8 * (size - sound) / (one.width * one.height * spans.frames),
        elapsed=whole * sum(report.elapsed for report in reports),
        ssim=fmean(sample.ssim for sample in samples), sampled=sampled, samples=len(reports),
    )  # fmt: skip
