"""What encoding a file would give, told from samples of it: size, time and quality.

As ab-av1 does for other encoders: parts of the video are encoded with the same settings, decoded
and compared, and the rest is taken to be like them.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encode_file import EncodeJob
from gsvc.codec.api.encoder import config_of
from gsvc.codec.api.reports import EncodeReport
from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.stream_info import StreamIndex
from gsvc.codec.media.places import display_name
from gsvc.codec.planning.video_trial import likeness
from gsvc.encoders.search.rate_control import FIXED_BITS

_SECONDS, _LEAST = 4.0, 2.0
"""Of a sample; of a short video, which has fewer before they are shorter."""
_SHARE, _ALL = 0.2, 24.0
"""Of a video that is tried at most: it is to take a quarter of the time. Seconds of one that is
tried whole: samples would be too short, and its stream can be kept."""
_FEWEST, _MOST, _MINUTES = 3, 8, 5
"""Samples: of a video of a minute, of any, and one more for each so many minutes."""
_FIXED = FIXED_BITS // 8
_EVERY = 6
"""One frame in so many is compared."""


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

        The sample begins with an intra picture because it begins there. `whole`: seconds of the
        video, which no group exceeds.
        """
        reader = StreamReader(io.BytesIO(self.data))
        first = next((packet for packet in reader if packet.is_picture), None)
        settings, header = self.job.settings, reader.header
        if first is None or settings.target_bpp(header.format) is not None:
            return 0.0
        group = settings.longest_group()
        if not settings.low_delay:
            longest = config_of(settings, header).longest_group
            group = longest / float(header.format.frame_rate)
        intra = len(GroupReader(header).read(first).units[0])
        return intra * (1 - min(1.0, self.report.duration / min(group, whole)))

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
    """Parts of four seconds, evenly spread, a fifth of the video at most; all of a short one, where
    `whole` is permitted.

    Raises InputError for a video that does not tell how long it is.
    """
    with job.open() as video:
        count, form = video.frame_count, video.format
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
        file = io.BytesIO()
        report = part.encode(nullcontext(file), "", part.settings)
        yield EncodedSample(part, report, file.getvalue())


def ssim(sample: EncodedSample) -> float:
    """Mean SSIM of a sample's frames, one in six of them, decoded at steps 0."""
    pairs = enumerate(sample.pairs(DecoderSettings(steps=0)))
    return fmean(likeness(a.pixels, b.pixels) for n, (a, b) in pairs if n % _EVERY == 0)


def forecast(
    spans: SampleSpans, samples: Sequence[EncodedSample], ssims: Sequence[float]
) -> EncodeForecast:
    """What samples with these SSIMs say of the whole video."""
    reports = [sample.report for sample in samples]
    surplus = [sample.surplus(spans.seconds) for sample in samples]
    sampled = sum(report.duration for report in reports)
    sizes = [one.size - _FIXED - more for one, more in zip(reports, surplus, strict=True)]
    rates = [size / one.duration for size, one in zip(sizes, reports, strict=True)]
    whole = spans.seconds / sampled
    size = _FIXED + spans.seconds * sum(sizes) / sampled
    sound = whole * sum(report.audio_size for report in reports)
    one = reports[0]
    return EncodeForecast(
        frames=spans.frames,
        duration=spans.seconds,
        size=round(size),
        spread=_standard_error(rates) * spans.seconds / size,
        bitrate=8 * (size - sound) / spans.seconds,
        bpp=8 * (size - sound) / (one.width * one.height * spans.frames),
        elapsed=whole * sum(report.elapsed for report in reports),
        ssim=fmean(ssims),
        sampled=sampled,
        samples=len(reports),
    )


def _standard_error(values: Sequence[float]) -> float:
    """Of the mean of samples; 0 for one."""
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return float((variance / len(values)) ** 0.5)
