"""`encode`: one call from a video file to a complete stream."""

import io
import logging
import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.api.reports import EncodeReport, Progress, Report
from gsvc.codec.bitstream.audio_and_text import AUDIO_CODINGS, Texts, pack_audio, text_packets
from gsvc.codec.bitstream.container import Packet, PacketType, StreamWriter
from gsvc.codec.bitstream.errors import NOTE, ConfigError, InputError, typed
from gsvc.codec.bitstream.frames import Frame, VideoFormat, duration
from gsvc.codec.media import places, track_source
from gsvc.codec.media.video_reader import INTERLACED, Size, VideoReader, fitted_size, open_video
from gsvc.encoders.tuning import shape_for, shape_of_still

_log = logging.getLogger(__name__)


@typed
def encode(
    source: places.PathOrFile,
    target: places.PathOrFile,
    *,
    settings: EncoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    fps: float | None = None,
    audio: str | None = None,
    audio_bitrate: int | None = None,
    texts: bool = True,
    deinterlace: bool = False,
    size: Size | str | None = None,
    target_size: int | None = None,
    total_bitrate: float | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> EncodeReport:
    """Encode a video file to a stream. The target appears only when it is complete.

    Args:
        source: A path that FFmpeg reads, a pattern of images ("in/*.png" or "in/%05d.png"), "-"
            for y4m on standard input, or an open binary file, of which all that is left is read
            first.
        target: A path, "-" for standard output, or an open binary file, which is written to as the
            stream is made and stays open.
        settings: How to encode; level 1 by default.
        start: Second of the source to begin at.
        frames: Most frames to encode; None for all.
        fps: Most frames a second to encode; None for all. Of a pattern of images its rate, 25 by
            default.
        audio: "opus" carries the sound, "none" drops it. None carries it unless a size or a total
            rate leaves less than 1 kbit/s beside it. Images and pipes have none.
        audio_bitrate: Bits per second of the sound, 6000 to 510000, mono below 18000; None takes
            16000 for mono and 24000 for stereo, or its share of a size or a total rate.
        texts: Carry title, chapters and subtitles.
        deinterlace: Draw whole pictures of interlaced video, which else is encoded as it is.
        size: Scale larger pictures down to so many pixels of the shorter side, or to a width and
            height; "auto" chooses size and frame rate by the rate; "source" keeps both. None keeps
            them unless a rate is far too low for them. The log tells what was chosen.
        target_size: Bytes that the file may have at most, sound and texts included; the video is
            encoded up to four times to come near. Not with a rate or a quality in the settings.
            Sound takes 6000, 8000, 12000 or 16000 bits per second of it by the level that the rest
            reaches, unless `audio_bitrate` says more.
        total_bitrate: The same as bits per second of the whole file.
        overwrite: Replace a target that exists.
        progress: Called at the beginning, while a group is coded, and after every packet.

    Returns:
        Size, rate and duration of the stream. A rate or a size missed by more than 5 %, or a
        quality by more than 10 %, is logged as a warning.

    Raises:
        InputError: The source cannot be read as video.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range, or the target does not end in ".gsv".
        MissingModelError: A scaffold layer needs a model that is not installed.
    """
    began = monotonic()
    if audio not in (None, *AUDIO_CODINGS):
        raise ConfigError(f"audio {audio!r}: choose one of {', '.join(AUDIO_CODINGS)}")
    places.refuse_same(source, target)
    settings, is_heard = settings or EncoderSettings(), audio != "none"
    with places.local_path(source) as path:
        job = EncodeJob(
            path, settings, start, frames, fps, is_heard, audio_bitrate, texts, progress,
            deinterlace, size, audio is None,
        )  # fmt: skip
        if target_size is None and total_bitrate is None:
            job, name = suited(job, settings.bitrate), places.shown(target)
            report = job.encode(places.create_stream(target, overwrite), name, settings)
        else:  # late: it builds on this module
            from gsvc.codec.api.target_size import encode_to_size

            report = encode_to_size(job, target, target_size, total_bitrate, overwrite=overwrite)
    for line in target_warnings(settings, report):
        _log.warning("%s", line)
    return replace(report, elapsed=monotonic() - began)


@dataclass
class EncodeJob:
    """The arguments of `encode` that say what to encode."""

    source: str | Path
    settings: EncoderSettings
    start: float = 0.0
    frames: int | None = None
    fps: float | None = None
    sound: bool = True
    audio_bitrate: int | None = None
    texts: bool = True
    progress: Report | None = None
    deinterlace: bool = False
    size: Size | str | None = None
    sound_may_go: bool = False
    """Whether a small size has none."""
    _texts: Texts | None = field(default=None, init=False)

    def encode(
        self, output: AbstractContextManager[BinaryIO], target: str, settings: EncoderSettings
    ) -> EncodeReport:
        """Encode to `output`, which is entered when source and settings are known to be good."""
        began = monotonic()
        with self.open() as video:
            sound = self.open_sound()
            encoder = Encoder(video.format, settings, audio=bool(sound))
            texts = self.read_texts(video)
            with encoder, output as file:
                encoding = FileEncoding(encoder, file, video.frame_count, self.progress)
                encoding.write_texts(texts)
                encoding.write(video, sound, cut=self.frames is not None)
        return encoding.report(target, monotonic() - began)

    def encoded(self, settings: EncoderSettings, target: str = "") -> tuple[bytes, EncodeReport]:
        """The stream in memory, and its report."""
        file = io.BytesIO()
        report = self.encode(nullcontext(file), target, settings)
        return file.getvalue(), report

    def open(self) -> VideoReader:
        """The pictures."""
        return open_video(
            self.source,
            start=self.start,
            frames=self.frames,
            fps=self.fps,
            deinterlace=self.deinterlace,
            size=None if isinstance(self.size, str) else self.size,
        )

    @cached_property
    def seconds(self) -> Fraction:
        """Duration in seconds; decodes the video once if the container has none. Raises InputError
        if it is empty."""
        with self.open() as video:
            seconds = video.seconds
            if seconds is None:
                seconds = Fraction(sum(1 for _ in video)) / video.format.frame_rate
        if not seconds:
            raise InputError(
                f"{places.display_name(self.source)}: has no length: encode it at a rate"
            )
        return seconds

    @cached_property
    def is_still(self) -> bool:
        """Whether it is a single picture."""
        if self.frames == 1:
            return True
        with self.open() as video:
            return len(list(islice(video, 2))) == 1

    def read_texts(self, video: VideoReader) -> Texts:
        """Title, chapters and subtitles. Warns once about what cannot be carried."""
        if self._texts is None:
            wanted = track_source.Wanted(self.sound, self.audio_bitrate, self.texts)
            if self.sound and video.has_sound and places.is_read_once(self.source):
                _log.warning("%s: %s", self.source, track_source.READ_ONCE)
            if video.is_interlaced:
                _log.warning("%s: %s", self.source, INTERLACED)
            self._texts = track_source.read_beside(self.source, video.origin, video.seconds, wanted)
        return self._texts

    def open_sound(self) -> track_source.Sound:
        """The sound, if it is wanted."""
        if not self.sound:
            return track_source.Sound(iter(()))
        source, rate = self.source, self.audio_bitrate
        return track_source.Sound(track_source.read_audio(source, start=self.start, bitrate=rate))


class FileEncoding:
    """One video on its way into a stream file."""

    def __init__(
        self, encoder: Encoder, file: BinaryIO, total: int | None, progress: Report | None
    ) -> None:
        """`total`: frames of the video, None where it does not tell."""
        self._encoder, self._total, self._progress = encoder, total, progress
        self._writer = StreamWriter(file, encoder.header)
        self._times = array("q")
        self._audio_size = self._text_size = self._done = 0
        encoder.watch(self._report_progress)

    def write_texts(self, texts: Texts) -> None:
        """Write title, chapters and subtitles: before the pictures, where a pipe needs them."""
        before = self._writer.bytes_written
        for packet in text_packets(texts):
            self._writer.write(packet)
        self._text_size = self._writer.bytes_written - before

    def write(self, video: Iterable[Frame], sound: track_source.Sound, *, cut: bool) -> None:
        """Encode every frame; `cut`: the sound ends with the last one."""
        for packet in self._with_sound(self._picture_packets(video), sound, cut=cut):
            before = self._writer.bytes_written
            self._writer.write(packet)
            if packet.type == PacketType.AUDIO:
                self._audio_size += self._writer.bytes_written - before

    def report(self, target: str, elapsed: float) -> EncodeReport:
        """What came out; `elapsed`: seconds it took."""
        header = self._encoder.header
        return EncodeReport(
            target=target,
            width=header.format.width,
            height=header.format.height,
            frames=len(self._times),
            duration=float(duration(self._times, header.format)),
            level=header.level,
            size=self._writer.bytes_written,
            audio_size=self._audio_size,
            text_size=self._text_size,
            elapsed=elapsed,
            estimated_quality=self._encoder.estimated_quality,
        )

    def _picture_packets(self, video: Iterable[Frame]) -> Iterator[Packet]:
        """The packets of all frames, as they are ready."""
        self._report_progress()
        for frame in video:
            self._times.append(frame.pts)
            if ready := self._encoder.encode(frame):
                yield from ready
                self._done += sum(packet.frames for packet in ready)
                self._report_progress()
        yield from self._encoder.flush()
        self._done = len(self._times)
        self._report_progress()

    def _with_sound(
        self, packets: Iterator[Packet], sound: track_source.Sound, *, cut: bool
    ) -> Iterator[Packet]:
        """Put sound between the packets, each chunk before the first picture shown after it."""
        form = self._encoder.header.format
        for packet in packets:
            if packet.is_picture and packet.pts is not None:
                chunks = sound.until(packet.pts * form.time_base)
            else:
                chunks = sound.rest(duration(self._times, form) if cut else None)
            for chunk in chunks:
                yield Packet(PacketType.AUDIO, 0, pack_audio(chunk))
            yield packet

    def _report_progress(self, under_way: float = 0.0) -> None:
        if self._progress:
            size = self._writer.bytes_written
            self._progress(Progress(self._done, self._total, size, under_way))


AUTO_SIZE, SOURCE_SIZE = "auto", "source"


def suited(job: EncodeJob, bitrate: float | None, total: float | None = None) -> EncodeJob:
    """The job at a size and frame rate that suit bits per second of pictures, out of a `total`; a
    warning tells, or a note where the size "auto" was asked for.

    If no size was given, it scales only when the source is far too large for the rate. It lasts as
    long as before. Raises ConfigError for "auto" without a rate or without a file to look at first.
    """
    is_asked = job.size == AUTO_SIZE
    if isinstance(job.size, str) and job.size not in (AUTO_SIZE, SOURCE_SIZE):
        raise ConfigError(f"size {job.size!r}: write 288, 512x288, auto or source")
    is_file = places.is_glob(job.source) or os.path.isfile(job.source)  # no camera is opened twice
    if is_asked and (bitrate is None or not is_file):
        raise ConfigError('size="auto" follows from a rate: give one, or a target size, of a file')
    if bitrate is None or not is_file or not (is_asked or job.size is None):
        return job
    with job.open() as video:
        form = video.format
    if job.is_still:
        return _suited_still(job, form, bitrate / float(form.frame_rate), is_asked=is_asked)
    own = form.width, form.height, float(form.frame_rate)
    shape = shape_for(bitrate, *own, is_asked=is_asked)
    if shape is None:
        return job
    width, height = fitted_size(form.width, form.height, shape[0])
    within = f" of pictures, {total / 1000:.3g} in all" if total and total > bitrate else ""
    _log.log(
        NOTE if is_asked else logging.WARNING,
        '%s: encoded at %dx%d, %.3g frames/s, for %.3g kbit/s%s; size="source" keeps %dx%d, %.3g',
        places.display_name(job.source), width, height, shape[1], bitrate / 1000, within, *own,
    )  # fmt: skip
    job = replace(job, size=(width, height))
    if places.is_glob(job.source):
        return job  # of images `fps` is not the most, but theirs
    frames = job.frames and max(1, round(job.frames * shape[1] / own[2]))
    return replace(job, fps=shape[1], frames=frames)


SMALLEST_STILL = 32
"""Pixels of the shorter side."""


def _suited_still(job: EncodeJob, form: VideoFormat, bits: float, *, is_asked: bool) -> EncodeJob:
    shorter = shape_of_still(bits, form.width, form.height)
    if shorter is None:
        if is_asked:
            _log.log(NOTE, '%s: size="auto" changes nothing', places.display_name(job.source))
        return job
    shorter = min(max(shorter, SMALLEST_STILL), form.width, form.height)
    _log.log(
        NOTE if is_asked else logging.WARNING,
        '%s: encoded at %dx%d, for %.0f bytes; size="source" keeps %dx%d',
        places.display_name(job.source), *fitted_size(form.width, form.height, shorter), bits / 8,
        form.width, form.height,
    )  # fmt: skip
    return replace(job, size=shorter)


_RATE_MISS, _QUALITY_MISS = 0.05, 0.1
"""Relative misses that trigger a warning: rate, which is promised to be met, and quality."""


def target_warnings(settings: EncoderSettings, report: EncodeReport) -> Iterator[str]:
    """A line for each goal of `settings` that the stream of `report` missed."""
    if settings.bitrate is not None:
        asked, got, unit = settings.bitrate / 1000, report.bitrate / 1000, "kbit/s"
    else:
        asked, got, unit = settings.bpp or 0.0, report.bpp, "bits per pixel"
    if asked and abs(got / asked - 1) > _RATE_MISS:
        yield f"asked for {asked:.4g} {unit}, got {got:.4g}: {_why(settings, got, got > asked)}"
    quality, reached = settings.quality, report.estimated_quality
    if quality is not None and reached is not None and abs(reached / quality - 1) > _QUALITY_MISS:
        end = "nearest" if reached > quality else "farthest"
        yield (
            f"asked for a distance of {quality:.3g}, got {reached:.3f} by the encoder's estimate: "
            f"about the {end} that it comes to with this video"
        )


def _why(settings: EncoderSettings, got: float, is_above: bool) -> str:
    """Why the rate is not the one asked for, and what to do."""
    if settings.low_delay:
        return "low delay nears a rate from one four seconds to the next, look-ahead meets it"
    about = f"{float(f'{got:.2g}'):g}"  # 3500, not 3.5e+03
    if is_above:
        return (
            f"the least that this video takes is about {about}, "
            'shrink it or lower its frame rate for less, as size="auto" does'
        )
    if limits := limits_told(settings):
        return f"about the most that this video takes{limits}"
    return f"the most that this video takes is about {about}, enlarge it for more"


def limits_told(settings: EncoderSettings) -> str:
    """What keeps a rate below what the video would take, and what to do; "" where nothing does."""
    given = {"max_packet_bytes": settings.max_packet_bytes, "max_bitrate": settings.max_bitrate}
    told = [f"{name}={value:.10g}" for name, value in given.items() if value is not None]
    return f" within {' and '.join(told)}, raise the limit for more" if told else ""
