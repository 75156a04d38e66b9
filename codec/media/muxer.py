"""Writing a video file in any container that FFmpeg muxes, with audio."""

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import av
from av.container import OutputContainer
from av.format import Flags
from av.video.stream import VideoStream

from gsvc.codec.bitstream.errors import ConfigError, OutputError
from gsvc.codec.bitstream.frames import AudioChunk, Color, Frame, VideoFormat
from gsvc.codec.bitstream.texts import Texts
from gsvc.codec.media.color import coded_picture
from gsvc.codec.media.marks import NO_ROOM, Mark, marked_comment
from gsvc.codec.media.tracks import AudioTrack, TextTrack


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
            raise OutputError(
                f"{self.name}: FFmpeg cannot write this video to it ({error.strerror}): {advice}"
            ) from error
        self.check()


_NEAR = Fraction(1, 4)
"""Of a frame: what the rounding of times to a container's ticks may come to."""

_log = logging.getLogger(__name__)


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
_LIMITED, _FULL = 1, 2
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
    "mp4": _H264,
    "ipod": _H264,
    "mov": _H264,
    "matroska": _H264,
    "mpegts": _H264,
    "flv": _H264,
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
    """Codes frames into the file at `path`, in the container that `target`'s suffix names.

    Raises ConfigError for a suffix of no video container, OutputError when writing fails.
    """

    def __init__(self, path: Path, target: str, form: VideoFormat, beside: Beside) -> None:
        self._target = target
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
                _mark(self._container, beside.mark, beside.texts.tags.get("comment", ""), target)
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


def _mark(container: OutputContainer, mark: Mark, comment: str, target: str) -> None:
    """Put the mark into the tags, before the comment that is there."""
    container.metadata["comment"] = marked_comment(mark, comment)
    if container.format.name not in _HAS_COMMENT:
        _log.warning(NO_ROOM, target)


def _open_container(sink: Sink, target: str) -> OutputContainer:
    try:
        container = av.open(sink, "w")
    except (ValueError, av.FFmpegError):
        raise _unknown(target) from None
    assert isinstance(container, OutputContainer)
    return container


def _unknown(target: str) -> ConfigError:
    suffix = Path(target).suffix or "no suffix"
    return ConfigError(f"{target}: {suffix} names no video format: use {USUAL_SUFFIXES}")


def _open_video(
    container: OutputContainer, form: VideoFormat, target: str
) -> tuple[VideoStream, Color]:
    coding = _coding_for(container, target)
    try:
        stream = container.add_stream(coding.codec, rate=form.frame_rate, options=coding.options)
    except (ValueError, av.FFmpegError):
        raise _unknown(target) from None
    assert isinstance(stream, VideoStream)
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
    context.color_range = _FULL if color.full_range else _LIMITED
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
