"""`encode`: one call from a video file to a complete stream, once or again at another rate."""

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
        encoder.watch(self._tell)

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
        self._tell()
        for frame in video:
            self._times.append(frame.pts)
            if ready := self._encoder.encode(frame):
                yield from ready
                self._done += sum(packet.frames for packet in ready)
                self._tell()
        yield from self._encoder.flush()
        self._done = len(self._times)
        self._tell()

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

    def _tell(self, under_way: float = 0.0) -> None:
        if self._progress:
            size = self._writer.bytes_written
            self._progress(Progress(self._done, self._total, size, under_way))


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
    _beside: Texts | None = field(default=None, init=False)

    def encode(
        self, output: AbstractContextManager[BinaryIO], target: str, settings: EncoderSettings
    ) -> EncodeReport:
        """Encode to `output`, which is entered when source and settings are known to be good."""
        began = monotonic()
        with self.open() as video:
            sound = self.open_sound()
            encoder = Encoder(video.format, settings, audio=bool(sound))
            beside = self.beside(video)
            with encoder, output as file:
                encoding = FileEncoding(encoder, file, video.frame_count, self.progress)
                encoding.write_texts(beside)
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

    def beside(self, video: VideoReader) -> Texts:
        """Title, chapters and subtitles. Warns once about what cannot be carried."""
        if self._beside is None:
            wanted = track_source.Wanted(self.sound, self.audio_bitrate, self.texts)
            if self.sound and video.has_sound and places.is_read_once(self.source):
                _log.warning("%s: %s", self.source, track_source.READ_ONCE)
            if video.is_interlaced:
                _log.warning("%s: %s", self.source, INTERLACED)
            self._beside = track_source.read_beside(
                self.source, video.origin, video.seconds, wanted
            )
        return self._beside

    def open_sound(self) -> track_source.Sound:
        """The sound, if it is wanted."""
        if not self.sound:
            return track_source.Sound(iter(()))
        source, rate = self.source, self.audio_bitrate
        return track_source.Sound(track_source.read_audio(source, start=self.start, bitrate=rate))


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
    if limits := _limits(settings):
        return f"about the most that this video takes{limits}"
    return f"the most that this video takes is about {about}, enlarge it for more"


def _limits(settings: EncoderSettings) -> str:
    """What keeps a rate below what the video would take, and what to do; "" where nothing does."""
    given = {"max_packet_bytes": settings.max_packet_bytes, "max_bitrate": settings.max_bitrate}
    told = [f"{name}={value:.10g}" for name, value in given.items() if value is not None]
    return f" within {' and '.join(told)}, raise the limit for more" if told else ""


_PASSES = 4
_AIM, _ENOUGH = 0.985, 0.95
"""Shares of the size: the aim, and the least that is near enough."""
_LEAST_RATE = 100.0
"""Bits per second, where all else leaves less."""


def encode_to_size(job: EncodeJob, size: int, target: str) -> tuple[bytes, EncodeReport]:
    """The largest stream of at most `size` bytes that a few attempts make, and its report.

    A size that cannot be reached is logged as a warning, and the nearest stream returned. Raises
    ConfigError for a size that sound and texts take by themselves, for one beside a rate or a
    quality, and for standard input; else as `encode` does.
    """
    data, report, above = nearest_stream(job, size, target)
    _tell(report, size, above, _limits(job.settings))
    return data, report


_SHRINKS = 0.7
"""Factor by which the sides of a single picture shrink if it still takes too much."""


def nearest_stream(
    job: EncodeJob, size: int, target: str
) -> tuple[bytes, EncodeReport, int | None]:
    """`encode_to_size` without its warning, and the least size above that an attempt made."""
    is_free = job.size in (None, AUTO_SIZE)
    found = _tried(job, size, target)
    while is_free and job.is_still and found[1].size > size:
        shorter = int(_SHRINKS * min(found[1].width, found[1].height))
        if shorter < SMALLEST_STILL:
            break
        found = _tried(replace(job, size=shorter), size, target)
    return found


def _tried(job: EncodeJob, size: int, target: str) -> tuple[bytes, EncodeReport, int | None]:
    """The best of a few attempts, and the least size above."""
    job, bitrate, room = sized(job, size)
    tried: list[tuple[bytes, EncodeReport]] = []
    for _ in range(_PASSES):
        tried.append(job.encoded(replace(job.settings, bitrate=bitrate), target))
        report = tried[-1][1]
        # Where another rate made the same stream, there is no more, or no less.
        is_stuck = len(tried) > 1 and report.video_size == tried[-2][1].video_size
        if _ENOUGH * size <= report.size <= size or is_stuck:
            break
        bitrate *= _AIM * room / report.video_size
    best = min(tried, key=lambda one: (one[1].size > size, abs(size - one[1].size)))
    return *best, min((one.size for _, one in tried if one.size > size), default=None)


def sized(job: EncodeJob, size: int) -> tuple[EncodeJob, float, int]:
    """For a stream of `size` bytes, the job with the rate of its sound, and what is left for
    pictures in bits per second and in bytes. Raises as `encode_to_size`."""
    _check(job, size)
    seconds = job.seconds
    total = 8 * size / float(seconds)
    job = _without_sound(job, size, seconds)
    with job.open() as video:
        sound = job.audio_bitrate or SOUND[0] if job.sound and video.has_sound else 0
    if sound and total - sound < LEAST_BESIDE:
        _log.warning(
            '%s: sound leaves the pictures %.2g of %.3g kbit/s, with which they show nothing: '
            'take audio="none", or %.3g in all',
            places.display_name(job.source), max(_LEAST_RATE, total - sound) / 1000, total / 1000,
            (sound + LEAST_BESIDE) / 1000,
        )  # fmt: skip
    job = _shared(suited(job, max(_LEAST_RATE, total - sound), total), total)
    beside = _beside(job, seconds)
    if size <= beside:
        lower = "lower the rate of the sound (--audio-bitrate), "
        raise ConfigError(
            f"sound and texts take {beside} of {size} bytes: {lower if sound > SOUND[0] else ''}"
            "leave it out (--audio none), or allow a larger file"
        )
    room = size - beside
    return job, max(_LEAST_RATE, 8 * _AIM * room / float(seconds)), room


LEAST_BESIDE = 1_000
"""Bits per second of pictures that sound must leave, or be left out."""


def _without_sound(job: EncodeJob, size: int, seconds: Fraction) -> EncodeJob:
    rate = job.audio_bitrate or SOUND[0]
    total, least = 8 * size / float(seconds), rate + LEAST_BESIDE
    if not (job.sound and job.sound_may_go and total < least):
        return job
    with job.open() as video:
        has_sound = video.has_sound
    silent = replace(job, sound=False)
    if has_sound:
        heard = replace(job, audio_bitrate=rate)
        fits = rate < total and _beside(silent, seconds) + _sound_bytes(heard, seconds) < size
        _log.warning(
            "%s: without its sound, which takes %.3g kbit/s of %.3g (Opus takes %.3g at least) and "
            "is carried from %.3g in all, a file of %d bytes%s",
            places.display_name(job.source), rate / 1000, total / 1000, SOUND[0] / 1000,
            least / 1000, -(-least * seconds // 8), '; audio="opus" carries it here too' * fits,
        )  # fmt: skip
    return silent


def size_at(job: EncodeJob, total_bitrate: float) -> int:
    """Bytes of a stream of `total_bitrate` bits per second in all. Raises as `encode_to_size`."""
    if total_bitrate <= 0:
        raise ConfigError(f"{total_bitrate:g} bit/s in all: give more than 0")
    _check(job, 1)
    return int(total_bitrate * job.seconds / 8)


SOUND = 6_000, 8_000, 12_000, 16_000
"""Bits per second of the sound in a file of a given rate, by the level of its pictures: mono."""
_STEREO_SHARE = 5
"""Sound is as usual, stereo where the source is, in files of so many times its rate."""


def _shared(job: EncodeJob, total: float) -> EncodeJob:
    """The job with the rate of its sound in a file of `total` bits per second, unless it has one:
    that of the highest level which the rest of the rate reaches."""
    if not job.sound or job.audio_bitrate is not None:
        return job
    with job.open() as video:
        return replace(job, audio_bitrate=sound_bitrate(job.settings, video.format, total))


def sound_bitrate(settings: EncoderSettings, video: VideoFormat, total: float) -> int | None:
    """Bits per second of the sound beside pictures, of `total` together; None: its usual rate."""
    if total >= _STEREO_SHARE * track_source.USUAL_STEREO:
        return None
    reached = [
        level
        for level, rate in enumerate(SOUND)
        if rate < total and replace(settings, bitrate=total - rate).chosen_level(video) >= level
    ]
    return SOUND[max(reached, default=0)]


def _check(job: EncodeJob, size: int) -> None:
    if size < 1:
        raise ConfigError(f"a file of {size} bytes: allow more")
    goals = job.settings.bpp, job.settings.bitrate, job.settings.quality
    if any(goal is not None for goal in goals):
        raise ConfigError("a size to meet and a rate or quality beside it: give one of them")
    if job.settings.task is not None:
        raise ConfigError("a task sends no pictures, whose rate would make the size: leave it out")
    if places.is_read_once(job.source):
        raise ConfigError("a pipe can be read but once: meet a size with a file, or a rate")


def _beside(job: EncodeJob, end: Fraction) -> int:
    """Bytes of sound and texts in the stream of a video of `end` seconds."""
    with job.open() as video:
        texts = text_packets(job.beside(video))
    return sum(len(packet.to_bytes()) for packet in texts) + _sound_bytes(job, end)


def _sound_bytes(job: EncodeJob, end: Fraction) -> int:
    chunks = job.open_sound().rest(end if job.frames is not None else None)
    sound = (Packet(PacketType.AUDIO, 0, pack_audio(chunk)) for chunk in chunks)
    return sum(len(packet.to_bytes()) for packet in sound)


def _tell(report: EncodeReport, size: int, above: int | None, limits: str) -> None:
    if report.size > size:
        _log.warning(
            "asked for %d bytes, got %d: about the least that this video takes, shrink it, lower "
            "its frame rate or leave out its sound for less",
            size, report.size,
        )  # fmt: skip
    elif report.size < _ENOUGH * size:
        why = f"about the most that this video takes{limits}"
        if above is not None:
            why = f"the nearest of a few attempts, another one made {above}"
        _log.warning("asked for %d bytes, got %d: %s", size, report.size, why)


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
        if total_bitrate is not None:
            if target_size is not None:
                raise ConfigError("a total bit rate and a target size: give one of them")
            target_size = size_at(job, total_bitrate)
        if target_size is None:
            job = suited(job, settings.bitrate)
            report = job.encode(
                places.create_stream(target, overwrite), places.shown(target), settings
            )
        else:
            with places.create_stream(target, overwrite) as file:
                data, report = encode_to_size(job, target_size, places.shown(target))
                file.write(data)
    for line in target_warnings(settings, report):
        _log.warning("%s", line)
    return replace(report, elapsed=monotonic() - began)
