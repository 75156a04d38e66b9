"""Writing video: a container chosen by suffix, numbered images, or y4m; complete or not at all."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, cast

import av
import numpy as np

from gsvc.codec.bitstream.audio_and_text import NO_TEXTS, Texts
from gsvc.codec.bitstream.errors import ConfigError, OutputError, typed
from gsvc.codec.bitstream.frames import AudioChunk, Color, Frame, VideoFormat, check_picture
from gsvc.codec.media import color, output, places
from gsvc.codec.media.marks import NO_ROOM, Mark, with_xmp
from gsvc.codec.media.muxer import Beside, FixedRate, Muxer


class Y4mEncoder:
    """Writes RGB pictures to a binary file as 4:2:0, or 4:4:4 where a side is odd.

    y4m has a range tag but no matrix tag: the matrix is what readers assume for the size. It has
    one frame rate and no timestamps; a warning tells of times that are lost.
    """

    def __init__(self, file: BinaryIO, form: VideoFormat, target: str) -> None:
        """`target`: what a warning calls the file."""
        self._file = file
        self._rate, self._first, self._count = FixedRate(target, form), 0, 0
        even = form.width % 2 == 0 and form.height % 2 == 0
        self._pixel_format = "yuv420p" if even else "yuv444p"
        self._color = Color(full_range=form.color.full_range)
        rate, aspect = form.frame_rate, form.pixel_aspect
        chroma = "C420jpeg" if even else "C444"
        span = "FULL" if form.color.full_range else "LIMITED"
        file.write(
            f"YUV4MPEG2 W{form.width} H{form.height} F{rate.numerator}:{rate.denominator} Ip "
            f"A{aspect.numerator}:{aspect.denominator} {chroma} XCOLORRANGE={span}\n".encode()
        )

    def write(self, frame: Frame) -> None:
        """Write one frame of the format's size."""
        coded = color.yuv_from_rgb(frame.pixels, self._color, self._pixel_format)
        self._file.write(b"FRAME\n" + np.asarray(coded.to_ndarray(), np.uint8).tobytes())
        self._first = frame.pts if self._count == 0 else self._first
        self._rate.check(frame.pts - self._first, self._count)
        self._count += 1

    def finish(self) -> None:
        """Write out what is buffered."""
        self._file.flush()


_log = logging.getLogger(__name__)


class VideoWriter:
    """What `open_writer` opens: takes the frames of a video."""

    def __init__(
        self, writer: "Y4mEncoder | ImageWriter | Muxer", target: str, form: VideoFormat
    ) -> None:
        self._writer, self._target = writer, target
        self._shape = (form.height, form.width, 3)
        self._last, self._is_over = -1, False

    @typed
    def write(self, frame: Frame) -> None:
        """Write one frame of the format's size; times must increase. Raises OutputError when
        writing fails, ConfigError for another size or time and after the `with` block."""
        if self._is_over:
            raise ConfigError("this writer is closed: write within its `with` block")
        check_picture(frame.pixels, self._shape)
        if frame.pts <= self._last:
            after = f" follows {self._last}" if self._last >= 0 else ""
            raise ConfigError(f"frame time {frame.pts}{after}: give times that rise, from 0 on")
        with output.explain_failure(self._target):
            self._writer.write(frame)
        self._last = frame.pts

    def add_sound(self, chunk: AudioChunk) -> None:
        """Take the next chunk of live sound; a target without sound drops it."""
        if isinstance(self._writer, Muxer):
            self._writer.add_sound(chunk)


@typed
@contextmanager
def open_writer(
    target: places.PathOrFile,
    format: VideoFormat,
    *,
    audio: Sequence[AudioChunk] = (),
    texts: Texts = NO_TEXTS,
    mark: Mark | None = None,
    live_sound: bool = False,
    overwrite: bool = False,
) -> Iterator[VideoWriter]:
    """Open a video for writing in a `with` block; it appears when the block ends without error.

    `target` is one of:
    - a path whose suffix names a container: .mp4, .mkv, .mov (H.264), .webm (VP9), .nut (lossless
      RGB), and others that FFmpeg knows, with its default codec;
    - numbered images, "out/%05d.png" or "out/" for the same;
    - an image, "one.png", of the only frame: a second one raises ConfigError;
    - y4m, as "*.y4m", an open file, a pipe without a suffix or "-" for standard output; the latter
      are written as frames come.

    Odd sizes are coded as 4:4:4. y4m, .avi and images have a fixed rate; y4m and images carry
    no audio and no texts. With `live_sound`, sound comes by `VideoWriter.add_sound`. `mark`
    goes into the tag "comment" of containers that have it, and into PNG and JPEG images as XMP.
    Raises ConfigError for a suffix of no video format, OutputError for an existing target
    (unless `overwrite`), a missing folder, no permission, a full disk.
    """
    name = places.shown(target)
    with ExitStack() as opened:
        with output.explain_failure(name):
            if not isinstance(target, str | Path):
                places.refuse_unwritable(target)
                if "." in Path(name).name and not name.lower().endswith(".y4m"):
                    how = f"not what {name} says: give the path itself"
                    raise ConfigError(f"an open file takes y4m, {how}")
                writer: Y4mEncoder | ImageWriter | Muxer = Y4mEncoder(target, format, name)
            else:
                beside = Beside(audio, texts, mark, live_sound)
                writer = _opened(opened, name, format, beside, overwrite)
        if live_sound and not isinstance(writer, Muxer):
            _log.warning("%s carries no sound: left out, use .mp4 or .mkv", name)
        video = VideoWriter(writer, name, format)
        try:
            yield video
        finally:
            video._is_over = True
        if video._last < 0:
            raise OutputError("there is no frame to write: choose a part that has some")
        with output.explain_failure(name):
            writer.finish()


class _TriedError(Exception):
    pass


def try_target(target: str, overwrite: bool) -> None:
    """Raise what `open_writer` does of a target, before its format is known; nothing is written.

    Raises ConfigError for one image too.
    """
    pattern = image_pattern(target)
    if pattern is not None and not is_numbered(pattern):
        name = pattern.with_name(f"{pattern.stem}-%05d{pattern.suffix}")
        raise ConfigError(f"{target} names one image, and more come: number them, such as {name}")
    is_special = os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target))
    if target == output.STANDARD_OUTPUT or is_special:
        return
    with suppress(_TriedError), open_writer(target, _ANY_FORMAT, overwrite=overwrite):
        raise _TriedError


def _opened(
    opened: ExitStack, target: str, form: VideoFormat, beside: Beside, overwrite: bool
) -> "Y4mEncoder | ImageWriter | Muxer":
    """The writer of `target`; what is to be closed or removed in the end goes to `opened`."""
    if target == output.STANDARD_OUTPUT:
        return Y4mEncoder(cast(BinaryIO, output.StandardOutput()), form, "standard output")
    pattern = image_pattern(target)
    if pattern is not None and is_numbered(pattern):
        if not overwrite:
            _refuse_to_mix(pattern)
        folder = opened.enter_context(output.atomic_folder(pattern.parent))
        return ImageWriter(folder, pattern, form, beside.mark)
    path = opened.enter_context(output.atomic_output(target, overwrite))
    if pattern is not None:
        return ImageWriter(path, pattern, form, beside.mark)
    if target.lower().endswith(".y4m") or (path.is_fifo() and not path.suffix):
        return Y4mEncoder(opened.enter_context(open(path, "wb")), form, target)
    muxer = Muxer(path, target, form, beside)
    opened.callback(muxer.close)
    return muxer


_ANY_FORMAT = VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
_JPEG_COLOR = Color(matrix=6, full_range=True)  # JFIF: BT.601, full range
_CODECS = {
    ".png": ("png", "rgb24"),
    ".bmp": ("bmp", "bgr24"),
    ".ppm": ("ppm", "rgb24"),
    ".tif": ("tiff", "rgb24"),
    ".tiff": ("tiff", "rgb24"),
    ".jpg": ("mjpeg", "yuvj444p"),
    ".jpeg": ("mjpeg", "yuvj444p"),
}
_HAS_XMP = {"png", "mjpeg"}
_JPEG_SCALE = 118  # quantiser 1, the finest, in FFmpeg's lambda units


def image_pattern(target: str) -> Path | None:
    """The path of images: a folder ("out/"), with a number ("out/%05d.png"), or of one image.

    None when `target` names no images. Raises ConfigError for a name with several numbers.
    """
    if target.endswith(("/", "\\")):
        return Path(target) / "%05d.png"
    path = Path(target)
    if path.suffix.lower() not in _CODECS:
        return None
    if len(places.NUMBER.findall(path.name)) > 1 or "%" in places.NUMBER.sub("", path.name):
        raise ConfigError(f"{target}: give it one number and no other %, such as %05d{path.suffix}")
    return path


def is_numbered(pattern: Path) -> bool:
    """Whether a path of `image_pattern` names many images."""
    return bool(places.NUMBER.search(pattern.name))


class ImageWriter:
    """Codes each frame as an image of its own, with the mark if its format takes it.

    `place` is the folder of the images that `pattern` numbers from 1, or the path of the only one.
    """

    def __init__(self, place: Path, pattern: Path, form: VideoFormat, mark: Mark | None) -> None:
        self._place, self._pattern, self._mark, self._count = place, pattern, mark, 0
        self._codec, self._pixel_format = _CODECS[pattern.suffix.lower()]
        if mark is not None and self._codec not in _HAS_XMP:
            _log.warning(NO_ROOM, pattern)
        coder = av.CodecContext.create(self._codec, "w")
        assert isinstance(coder, av.VideoCodecContext)
        self._coder = coder
        coder.width, coder.height = form.width, form.height
        coder.pix_fmt = self._pixel_format
        coder.time_base = Fraction(1, 25)
        coder.sample_aspect_ratio = form.pixel_aspect
        coder.thread_count = 1  # one frame in, one image out
        if self._codec == "mjpeg":
            coder.color_range = 2
            coder.qmin = 1
            coder.qscale, coder.global_quality = True, _JPEG_SCALE

    def write(self, frame: Frame) -> None:
        """Write an image. Raises ConfigError for a second one of the same name."""
        name, place, self._count = self._pattern, self._place, self._count + 1
        if is_numbered(name):
            name = name.with_name(name.name % self._count)
            place = place / name.name
        elif self._count > 1:
            raise ConfigError(
                f"{name}: names one image of several: number them, such as "
                f"{name.stem}-%05d{name.suffix}, or take one with frames=1"
            )
        picture = color.coded_picture(frame.pixels, _JPEG_COLOR, self._pixel_format)
        picture.pts = frame.pts
        image = b"".join(bytes(packet) for packet in self._coder.encode(picture))
        image = image if self._mark is None else with_xmp(image, self._mark)
        with output.explain_failure(name):
            place.write_bytes(image)

    def finish(self) -> None:
        """Nothing to do: every image is written."""


def _refuse_to_mix(pattern: Path) -> None:
    before, _, after = places.NUMBER.split(pattern.name)
    shape = re.compile(re.escape(before) + r"\d+" + re.escape(after))
    if pattern.parent.is_dir():
        for path in pattern.parent.iterdir():
            if shape.fullmatch(path.name):
                raise OutputError(f"{path} already exists: overwrite=True replaces such images")
