"""Writing a video file in any container that FFmpeg muxes, with sound and texts.

Opus packets are copied where the container takes Opus, else transcoded.
"""

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import merge
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import av
from av.container import OutputContainer
from av.format import Flags
from av.stream import Stream
from av.subtitles.stream import SubtitleStream

from gsvc.codec.bitstream.audio_and_text import SAMPLE_RATE, Subtitles, Texts, TimedText
from gsvc.codec.bitstream.errors import ConfigError, OutputError
from gsvc.codec.bitstream.frames import AudioChunk, Color, Frame, VideoFormat
from gsvc.codec.media.color import coded_picture, range_of
from gsvc.codec.media.marks import NO_ROOM, Mark, marked_comment

OPUS_ENCODER = "libopus"  # PyAV's wheels have it
_TAKES_OPUS = {"mp4", "matroska", "webm", "nut"}
_TICK = Fraction(1, SAMPLE_RATE)
_BITRATE_PER_CHANNEL = 96_000

_log = logging.getLogger(__name__)


class AudioTrack:
    """The audio track of an output file, muxed piece by piece between the pictures."""

    def __init__(
        self, container: OutputContainer, chunks: Sequence[AudioChunk], *, live: bool = False
    ) -> None:
        """`live`: more chunks come by `add`, and the first ones later."""
        self._container = container
        self._chunks = chunks
        self._waiting: av.Packet[Stream] | None = None
        self._live = _opened_live(container) if live else None
        self._packets = iter(()) if live else self._open()

    def add(self, chunk: AudioChunk) -> None:
        """Take the next chunk of a live track; what lies before time 0 is left out."""
        if self._live is not None and chunk.pts + chunk.packet_samples * len(chunk.packets) > 0:
            skipped = max(0, -chunk.pts // chunk.packet_samples)
            pts = chunk.pts + skipped * chunk.packet_samples
            rest = replace(chunk, pts=pts, packets=chunk.packets[skipped:])
            self._packets = chain(self._packets, _copied(self._live, [rest]))

    def write_until(self, time: Fraction | None) -> None:
        """Mux the packets that begin at `time` seconds or before; None muxes all that are left."""
        while packet := self._waiting or next(self._packets, None):
            if time is not None and (packet.pts or 0) * packet.time_base > time:
                self._waiting = packet
                return
            self._waiting = None
            self._container.mux(packet)

    def _open(self) -> "Iterator[av.Packet[Stream]]":
        if not self._chunks:
            return iter(())
        if any(after.pts < before.pts for before, after in pairwise(self._chunks)):
            why = "the times of sound go back: to join streams, decode each and encode all frames"
            raise OutputError(why)
        if self._container.format.name in _TAKES_OPUS and OPUS_ENCODER in av.codecs_available:
            return _copied(_opus_stream(self._container, self._chunks[0]), self._chunks)
        stream = _coded_stream(self._container, self._chunks[0])
        if stream is None:
            _log.warning("%s cannot carry audio, which is left out", self._container.format.name)
            return iter(())
        # AVI has no start times: a packet before time 0 would push back the pictures.
        return _recoded(stream, self._chunks, 0 if self._container.format.name == "avi" else None)


def _opened_live(container: OutputContainer) -> av.AudioStream | None:
    """An Opus stream opened before any sound arrives; stereo, because decoders upmix mono."""
    if container.format.name in _TAKES_OPUS and OPUS_ENCODER in av.codecs_available:
        return _opus_stream(container, AudioChunk(0, 2, 960, 0, ()))
    _log.warning("%s cannot carry live sound, which is left out", container.format.name)
    return None


def _opus_stream(container: OutputContainer, chunk: AudioChunk) -> av.AudioStream:
    """A stream to mux to; its encoder is opened only to set the container's parameters."""
    stream = container.add_stream(OPUS_ENCODER, rate=SAMPLE_RATE)
    assert isinstance(stream, av.AudioStream)
    stream.codec_context.layout = _layout(chunk)
    stream.codec_context.open()
    stream.codec_context.extradata = _opus_head(chunk)
    return stream


def _copied(stream: av.AudioStream, chunks: Sequence[AudioChunk]) -> "Iterator[av.Packet[Stream]]":
    for pts, samples, data in _timed(chunks):
        yield sample_packet(data, stream, _TICK, pts, samples)


def sample_packet(
    data: bytes, stream: Stream, time_base: Fraction, pts: int, duration: int, is_key: bool = True
) -> "av.Packet[Stream]":
    """A sample of a track; times are in ticks of `time_base`."""
    packet: av.Packet[Stream] = av.Packet(data)
    packet.stream, packet.time_base = stream, time_base
    packet.pts = packet.dts = pts
    packet.duration, packet.is_keyframe = duration, is_key
    return packet


def _coded_stream(container: OutputContainer, chunk: AudioChunk) -> av.AudioStream | None:
    try:
        usual = container.default_audio_codec
        codec = av.Codec("aac" if usual == "amr_nb" else usual, "w")  # AMR takes 8 kHz alone
        rates = codec.audio_rates
        rate = SAMPLE_RATE if not rates or SAMPLE_RATE in rates else max(rates)
        stream = container.add_stream(codec.name, rate=rate)
    except ValueError:
        return None
    assert isinstance(stream, av.AudioStream)
    stream.codec_context.layout = _layout(chunk)
    stream.codec_context.bit_rate = _BITRATE_PER_CHANNEL * chunk.channels
    return stream


def _recoded(
    stream: av.AudioStream, chunks: Sequence[AudioChunk], earliest: int | None
) -> "Iterator[av.Packet[Stream]]":
    for frame in chain(_decoded(chunks), (None,)):
        for packet in stream.encode(frame):
            if earliest is None or packet.pts is None or packet.pts >= earliest:
                yield packet


def _decoded(chunks: Sequence[AudioChunk]) -> Iterator[av.AudioFrame]:
    decoder = av.CodecContext.create("opus", "r")
    assert isinstance(decoder, av.AudioCodecContext)
    decoder.sample_rate = SAMPLE_RATE
    decoder.layout = _layout(chunks[0])
    decoder.extradata = _opus_head(chunks[0])
    for pts, samples, data in _timed(chunks):
        for frame in decoder.decode(av.Packet(data)):
            # The decoder drops the pre-skip, so the first packets keep only their end.
            frame.pts, frame.time_base = pts + samples - frame.samples, _TICK
            yield frame


def _timed(chunks: Sequence[AudioChunk]) -> Iterator[tuple[int, int, bytes]]:
    for chunk in chunks:
        for index, data in enumerate(chunk.packets):
            yield chunk.pts + index * chunk.packet_samples, chunk.packet_samples, data


def _layout(chunk: AudioChunk) -> str:
    return "stereo" if chunk.channels == 2 else "mono"


def _opus_head(chunk: AudioChunk) -> bytes:
    """The identification header of Opus in a container (RFC 7845, section 5.1)."""
    rate = SAMPLE_RATE.to_bytes(4, "little")
    pre_skip = chunk.pre_skip.to_bytes(2, "little")
    return b"OpusHead\x01" + bytes([chunk.channels]) + pre_skip + rate + bytes(3)


_MILLISECOND = Fraction(1, 1000)
_IN_BOXES = dict.fromkeys(("mp4", "mov", "ipod"), "mov_text")
_CODECS = {"matroska": "subrip", "webm": "webvtt", **_IN_BOXES}
"""Of subtitles, by container; each of them takes chapters too."""
_LOST_LANGUAGES = "%s: cannot name these languages of subtitles, which are left out: %s: use .mkv"
_HEADER = b"""[Script Info]
PlayResX: 384
PlayResY: 288

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, \
Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, \
Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
"""The plain style that FFmpeg's encoders of subtitles want to be told."""


class TextTrack:
    """The subtitles of an output file, muxed cue by cue between the pictures."""

    def __init__(self, container: OutputContainer, texts: Texts) -> None:
        """Give the container its tags and chapters, and a stream for each track of subtitles."""
        self._container, self._texts = container, texts
        container.metadata.update(texts.tags)
        codec = _CODECS.get(container.format.name)
        if codec is None:
            parts = ("chapters", texts.chapters), ("subtitles", texts.subtitles)
            if lost := " and ".join(part for part, there in parts if there):
                left_out = "%s cannot carry %s, which are left out: use .mkv or .mp4"
                _log.warning(left_out, container.format.name, lost)
            self._packets: list[av.Packet[Stream]] = []
            return
        container.set_chapters(
            [
                {
                    "id": number,
                    "start": span.start,
                    "end": span.start + span.duration,
                    "time_base": _MILLISECOND,
                    "metadata": {"title": span.text},
                }
                for number, span in enumerate(texts.chapters, 1)
            ]
        )
        tracks = [_packets(_stream(container, codec, one), one.cues) for one in texts.subtitles]
        self._packets = list(merge(*tracks, key=lambda packet: packet.pts or 0))[::-1]

    def write_until(self, time: Fraction) -> None:
        """Mux the cues that begin at `time` seconds or before; later ones wait."""
        while self._packets and (self._packets[-1].pts or 0) * _MILLISECOND <= time:
            self._container.mux(self._packets.pop())

    def check(self, path: Path, target: str) -> None:
        """Tell of languages that a closed file does not have: .mov has no number for most."""
        wanted = [track.language for track in self._texts.subtitles]
        if self._container.format.name not in _IN_BOXES or not any(wanted):
            return
        with av.open(str(path)) as file:
            kept = [stream.metadata.get("language", "") for stream in file.streams.subtitles]
        if lost := sorted({*wanted} - {*kept, "", "und"}):
            _log.warning(_LOST_LANGUAGES, target, ", ".join(lost))


def _stream(container: OutputContainer, codec: str, track: Subtitles) -> SubtitleStream:
    stream = container.add_stream(codec)
    assert isinstance(stream, SubtitleStream)
    stream.codec_context.subtitle_header = _HEADER
    stream.time_base = stream.codec_context.time_base = _MILLISECOND
    named = {"language": track.language, "title": track.title}
    stream.metadata.update({name: value for name, value in named.items() if value})
    return stream


def _packets(stream: SubtitleStream, cues: Sequence[TimedText]) -> "list[av.Packet[Stream]]":
    packets, in_mp4 = [], stream.codec_context.name == "mov_text"
    for cue in _apart(cues) if in_mp4 and cues else cues:
        data = cue.text.encode()
        if in_mp4:
            data = data[: (1 << 16) - 1]
            data = len(data).to_bytes(2, "big") + data
        packets.append(sample_packet(data, stream, _MILLISECOND, cue.start, cue.duration))
    return packets


def _apart(cues: Sequence[TimedText]) -> list[TimedText]:
    """MP4 shows one cue after another and delays what overlaps: there one ends where the next
    begins, and those that begin together are one."""
    together = [list(those) for _, those in groupby(cues, lambda cue: cue.start)]
    ends = [those[0].start for those in together[1:]] + [
        cues[-1].start + max(cue.duration for cue in cues)
    ]
    return [
        TimedText(
            those[0].start,
            min(max(cue.duration for cue in those), end - those[0].start),
            "\n".join(cue.text for cue in those),
        )
        for those, end in zip(together, ends, strict=True)
    ]


class Sink(io.FileIO):
    """A file that FFmpeg writes to. No exception may travel through FFmpeg: `check` raises it."""

    def __init__(self, path: Path, name: str) -> None:
        """`path`: what is written; `name`: of the file that it becomes."""
        super().__init__(path, "wb")
        self.name = name  # by which FFmpeg chooses the container
        self._failure: BaseException | None = None

    def write(self, data: Any) -> int:
        """As a file's, but for failures."""
        size, view = len(data), memoryview(data)
        try:
            while view and self._failure is None:
                view = view[super().write(view) :]
        except BaseException as error:  # noqa: BLE001 - raised again by `check`
            self._failure = error
        return size

    def check(self) -> None:
        """Raise what writing failed with, if it did."""
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def explained(self, advice: str) -> Iterator[None]:
        """Raise the failures of a block that has FFmpeg write; OutputError with `advice`."""
        try:
            yield
        except av.FFmpegError as error:
            self.check()
            advice = advice if self.seekable() else "a pipe takes .mkv, .webm or .y4m"
            why = f"{self.name}: FFmpeg cannot write this video to it ({error.strerror}): {advice}"
            raise OutputError(why) from error
        self.check()


_NEAR = Fraction(1, 4)
"""Of a frame: what the rounding of times to a container's ticks may come to."""


class FixedRate:
    """Notices the first frame that a file of a fixed rate shows at a wrong time, and warns."""

    def __init__(self, target: str, form: VideoFormat) -> None:
        self._target = target
        self._scale = form.time_base * form.frame_rate
        self._is_told = False

    def check(self, pts: int, number: int) -> None:
        """A frame with this time, in ticks, becomes the one of this number."""
        if self._is_told or abs(pts * self._scale - number) <= _NEAR:
            return
        self._is_told = True
        _log.warning(
            "%s: has one frame rate, so the frames' own times are lost: use .mp4 or .mkv",
            self._target,
        )


USUAL_SUFFIXES = ".mp4, .mkv, .mov, .webm, .avi, .y4m, or images as folder/%05d.png"

_BEST_SCALE = 2 * 118  # quantiser 2 of MPEG-4 and its like, visually lossless, in lambda units
_HAS_COMMENT = {"avi", "flv", "ipod", "matroska", "mov", "mp4", "nut", "ogg", "webm"}
_LOSES_ASPECT = {"webm", "nut"}  # they read it from the stream, where PyAV cannot set it
_NO_VIDEO = {"none", "png"}  # the video codec that audio containers name


@dataclass(frozen=True)
class _Coding:
    codec: str
    options: dict[str, str] = field(default_factory=dict)
    pixel_formats: tuple[str, str] = ("yuv420p", "yuv444p")  # of even and of odd sizes
    carries_color: bool = True


# Chroma averages four pixels and so lies between them, unlike H.264's default at their left.
_H264 = _Coding("libx264", {"crf": "12", "preset": "veryfast", "chroma_sample_location": "center"})
_VP9 = _Coding("libvpx-vp9", {"crf": "16", "deadline": "realtime", "cpu-used": "5", "row-mt": "1"})
_LOSSLESS = _Coding("ffv1", pixel_formats=("bgr0", "bgr0"))
_BY_MUXER = {
    **dict.fromkeys(("mp4", "ipod", "mov", "3gp", "f4v", "matroska", "mpegts", "flv"), _H264),
    "webm": _VP9,
    "nut": _LOSSLESS,
}


class Beside(NamedTuple):
    """What goes into a file with the pictures."""

    audio: Sequence[AudioChunk]
    texts: Texts
    mark: Mark | None
    is_live: bool = False
    """Whether sound comes later, by `Muxer.add_sound`."""


class Muxer:
    """Codes frames into the file at `path`, in the container that `target`'s suffix names. Raises
    ConfigError where it names none, OutputError when writing fails."""

    def __init__(self, path: Path, target: str, form: VideoFormat, beside: Beside) -> None:
        self._path, self._target = path, target
        self._form = form
        self._sink = Sink(path, target)
        try:
            self._container = _open_container(self._sink, target)
            self._stream, self._color = _open_video(self._container, form, target)
            self._ticks = _Ticks(self._container, form, target)
            self._stream.time_base = self._stream.codec_context.time_base = self._ticks.time_base
            self._audio = AudioTrack(self._container, beside.audio, live=beside.is_live)
            self._texts = TextTrack(self._container, beside.texts)
            if beside.mark is not None:
                comment = marked_comment(beside.mark, beside.texts.tags.get("comment", ""))
                self._container.metadata["comment"] = comment
                if self._container.format.name not in _HAS_COMMENT:
                    _log.warning(NO_ROOM, target)
        except BaseException:
            self.close()
            raise

    def add_sound(self, chunk: AudioChunk) -> None:
        """Take the next chunk of live sound, before the frames that are shown after it."""
        self._audio.add(chunk)

    def write(self, frame: Frame) -> None:
        """Code one frame; times must increase."""
        picture = coded_picture(frame.pixels, self._color, self._stream.pix_fmt or "")
        picture.pts, picture.time_base = self._ticks.of(frame.pts), self._ticks.time_base
        with self._sink.explained(f"use {USUAL_SUFFIXES}"):
            self._audio.write_until(frame.pts * self._form.time_base)
            self._texts.write_until(frame.pts * self._form.time_base)
            self._container.mux(self._stream.encode(picture))

    def finish(self) -> None:
        """Flush the encoders and close the file."""
        with self._sink.explained(f"use {USUAL_SUFFIXES}"):
            self._container.mux(self._stream.encode(None))
            self._audio.write_until(None)
            self._container.close()
        self._texts.check(self._path, self._target)

    def close(self) -> None:
        """Close the file as it is: with its sink closed, FFmpeg writes nothing more."""
        self._sink.close()


class _Ticks:
    """Times in the container: the frames' own, or frame numbers if it has a fixed rate."""

    def __init__(self, container: OutputContainer, form: VideoFormat, target: str) -> None:
        variable = container.format.name in _BY_MUXER or bool(
            container.format.flags & cast(int, Flags.variable_fps.value)
        )
        self.time_base = form.time_base if variable else 1 / form.frame_rate
        self._scale = form.time_base / self.time_base
        self._rate = None if variable else FixedRate(target, form)
        self._last: int | None = None

    def of(self, pts: int) -> int:
        tick = round(pts * self._scale)
        self._last = tick if self._last is None else max(tick, self._last + 1)
        if self._rate is not None:
            self._rate.check(pts, self._last)
        return self._last


def _open_container(sink: Sink, target: str) -> OutputContainer:
    try:
        container = av.open(sink, "w")
    except (ValueError, av.FFmpegError):
        raise _unknown(target) from None
    assert isinstance(container, OutputContainer)
    if container.format.flags & cast(int, Flags.no_file.value):  # HLS and DASH: many files
        container.close()
        raise _unknown(target)
    return container


def _unknown(target: str) -> ConfigError:
    suffix = Path(target).suffix or "no suffix"
    return ConfigError(f"{target}: {suffix} names no video format: use {USUAL_SUFFIXES}")


def _open_video(
    container: OutputContainer, form: VideoFormat, target: str
) -> tuple[av.VideoStream, Color]:
    coding = _coding_for(container, target)
    try:
        stream = container.add_stream(coding.codec, rate=form.frame_rate, options=coding.options)
    except (ValueError, av.FFmpegError):
        raise _unknown(target) from None
    assert isinstance(stream, av.VideoStream)
    odd = form.width % 2 or form.height % 2
    stream.width, stream.height = form.width, form.height
    stream.pix_fmt = coding.pixel_formats[1 if odd else 0]
    context = stream.codec_context
    context.sample_aspect_ratio = form.pixel_aspect
    if container.format.name in _LOSES_ASPECT and form.pixel_aspect != 1:
        _log.warning("%s: its pixel aspect is lost in this container: use .mp4 or .mkv", target)
    if not coding.carries_color:
        context.qscale, context.global_quality = True, _BEST_SCALE
        return stream, Color()
    # Tagged, so that no player has to guess the matrix assumed here.
    color = form.color.resolved(form.height)
    context.color_range = range_of(color)
    context.colorspace = color.matrix
    context.color_primaries = color.primaries
    context.color_trc = color.transfer
    return stream, color


def _coding_for(container: OutputContainer, target: str) -> _Coding:
    known = _BY_MUXER.get(container.format.name)
    if known is not None:
        return known
    name = container.default_video_codec
    if name in _NO_VIDEO:
        raise _unknown(target)
    try:
        formats = [form.name for form in av.Codec(name, "w").video_formats or ()]
    except ValueError:
        raise _unknown(target) from None
    first = formats[0] if formats else "yuv420p"
    even = "yuv420p" if "yuv420p" in formats else first
    odd = "yuv444p" if "yuv444p" in formats else even
    return _Coding(name, {}, (even, odd), carries_color=False)
