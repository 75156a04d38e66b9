"""`EncodeJob`: what to encode of which video, at which size; and its way into a stream file."""

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
from gsvc.codec.bitstream.audio_and_text import SAMPLE_RATE, Texts, pack_audio, text_packets
from gsvc.codec.bitstream.container import Packet, PacketType, StreamWriter
from gsvc.codec.bitstream.errors import NOTE, ConfigError, InputError
from gsvc.codec.bitstream.frames import AudioChunk, Frame, VideoFormat, duration
from gsvc.codec.media import places, track_source
from gsvc.codec.media.video_reader import INTERLACED, Size, VideoReader, fitted_size, open_video
from gsvc.encoders.tuning import shape_for, shape_of_still

_log = logging.getLogger(__name__)


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
    opened: VideoReader | None = None
    """The pictures where they were opened to see their size; `open` gives them once."""
    _texts: Texts | None = field(default=None, init=False)

    def encode(
        self, output: AbstractContextManager[BinaryIO], target: str, settings: EncoderSettings
    ) -> EncodeReport:
        """Encode to `output`, which is entered when source and settings are known to be good."""
        began = monotonic()
        with self.open() as video:
            sound = self.open_sound(video)
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
        """The pictures, and the sound with them of what cannot be opened once more."""
        if self.opened is not None:
            video, self.opened = self.opened, None
            return video
        return open_video(
            self.source,
            start=self.start,
            frames=self.frames,
            fps=self.fps,
            deinterlace=self.deinterlace,
            size=None if isinstance(self.size, str) else self.size,
            listens=self.sound and places.opens_once(self.source),
        )

    def look(self) -> VideoReader:
        """The pictures, to look at: closed if a file's, else those that `open` gives next."""
        video = self.open()
        if self.is_file:
            video.close()
        else:
            self.opened = video
        return video

    @property
    def is_file(self) -> bool:
        """Whether the source can be opened again and again."""
        return places.is_glob(self.source) or os.path.isfile(self.source)

    @cached_property
    def seconds(self) -> Fraction:
        """Seconds; decodes the video once if the container has none. Raises InputError if empty."""
        with self.open() as video:
            seconds = video.seconds
            if seconds is None:
                seconds = Fraction(sum(1 for _ in video)) / video.format.frame_rate
        if not seconds:
            why = f"{places.display_name(self.source)}: has no length: encode it at a rate"
            raise InputError(why)
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
            if video.is_interlaced:
                _log.warning("%s: %s", self.source, INTERLACED)
            self._texts = track_source.read_beside(self.source, video.origin, video.seconds, wanted)
        return self._texts

    def bytes_beside(self, end: Fraction) -> int:
        """Bytes of sound and texts in the stream, if the video has `end` seconds."""
        with self.open() as video:
            texts = text_packets(self.read_texts(video))
        return sum(len(packet.to_bytes()) for packet in texts) + self.sound_bytes(end)

    def sound_bytes(self, end: Fraction) -> int:
        """Bytes of the sound alone."""
        chunks = self.open_sound().rest(end if self.frames is not None else None)
        return sum(
            len(Packet(PacketType.AUDIO, 0, pack_audio(chunk)).to_bytes()) for chunk in chunks
        )

    def open_sound(
        self, video: VideoReader | None = None, samples: int = SAMPLE_RATE
    ) -> track_source.Sound:
        """The sound, if it is wanted; of what is read once or live, the one that comes with the
        pictures of `video`, about as many `samples` in a chunk."""
        chunks: Iterator[AudioChunk | None] = iter(())
        source, rate = self.source, self.audio_bitrate
        if self.sound and video is not None and video.beside is not None:
            if video.has_sound:
                name = places.display_name(source)
                beside, origin = video.beside, video.origin
                chunks = track_source.encode_beside(beside, name, origin, rate, samples)
        elif self.sound:
            chunks = track_source.read_audio(source, start=self.start, bitrate=rate)
        return track_source.Sound(chunks)


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
            self._progress(Progress(self._done, self._total, self._writer.bytes_written, under_way))


AUTO_SIZE, SOURCE_SIZE = "auto", "source"
SMALLEST_STILL = 32
"""Pixels of the shorter side."""


_BESIDE_SOUND = 0.6, 1_000.0
"""Of a live rate beside sound, the part that a size is chosen for, and the least such rate: at more
pixels faces are blobs. By eye."""


def suited(
    job: EncodeJob, bitrate: float | None, total: float | None = None, *, beside_sound: bool = False
) -> EncodeJob:
    """The job at a size and frame rate that suit bits per second of pictures, out of a `total`; a
    warning tells, or a note where the size "auto" was asked for.

    If no size was given, it scales only when the source is far too large for the rate. It lasts as
    long as before. `beside_sound`: whether live sound shares the link. A pipe or camera is opened
    once, only where "auto" is asked for, and `EncodeJob.open` then gives it. Raises ConfigError for
    "auto" without a rate.
    """
    is_asked = job.size == AUTO_SIZE
    if isinstance(job.size, str) and job.size not in (AUTO_SIZE, SOURCE_SIZE):
        raise ConfigError(f"size {job.size!r}: write 288, 512x288, auto or source")
    if is_asked and bitrate is None:
        raise ConfigError('size="auto" follows from a rate: give one, or a target size')
    if bitrate is None or not (is_asked or (job.is_file and job.size is None)):
        return job
    form = job.look().format
    if job.is_file and job.is_still:
        return _suited_still(job, form, bitrate / float(form.frame_rate), is_asked=is_asked)
    own = form.width, form.height, float(form.frame_rate)
    part, least = _BESIDE_SOUND
    rate = min(bitrate, max(least, part * bitrate)) if beside_sound else bitrate
    shape = shape_for(rate, *own, is_asked=is_asked)
    if shape is None:
        return job
    width, height = fitted_size(form.width, form.height, shape[0])
    _log.log(
        NOTE if is_asked else logging.WARNING,
        '%s: encoded at %dx%d, %.3g frames/s, for %.3g kbit/s; size="source" keeps %dx%d, %.3g',
        places.display_name(job.source),
        width,
        height,
        shape[1],
        (total or bitrate) / 1000,
        *own,
    )
    job = replace(job, size=(width, height))
    if places.is_glob(job.source):
        return job  # of images `fps` is not the most, but theirs
    frames = job.frames and max(1, round(job.frames * shape[1] / own[2]))
    if job.opened is not None:
        job.opened.reshape((width, height), shape[1], frames)
    return replace(job, fps=shape[1], frames=frames)


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
        places.display_name(job.source),
        *fitted_size(form.width, form.height, shorter),
        bits / 8,
        form.width,
        form.height,
    )
    return replace(job, size=shorter)
