"""Writing video: a container chosen by suffix, numbered images, or y4m; complete or not at all."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, OutputError
from gsvc.codec.bitstream.frames import AudioChunk, Color, Frame, VideoFormat
from gsvc.codec.bitstream.texts import NO_TEXTS, Texts
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.codec.media.image_writer import ImageWriter, OneImageWriter, image_pattern, is_numbered
from gsvc.codec.media.marks import Mark
from gsvc.codec.media.muxer import Beside, FixedRate, Muxer
from gsvc.codec.media.output import (
    STANDARD_OUTPUT,
    StandardOutput,
    atomic_folder,
    atomic_output,
    explain_failure,
)
from gsvc.codec.media.places import PathOrFile, refuse_unwritable, shown


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
        fields = (
            "YUV4MPEG2",
            f"W{form.width}",
            f"H{form.height}",
            f"F{rate.numerator}:{rate.denominator}",
            "Ip",
            f"A{aspect.numerator}:{aspect.denominator}",
            "C420jpeg" if even else "C444",
            f"XCOLORRANGE={'FULL' if form.color.full_range else 'LIMITED'}",
        )
        file.write(" ".join(fields).encode() + b"\n")

    def write(self, frame: Frame) -> None:
        """Write one frame of the format's size."""
        coded = yuv_from_rgb(frame.pixels, self._color, self._pixel_format)
        planes = np.asarray(coded.to_ndarray(), np.uint8)
        self._file.write(b"FRAME\n" + planes.tobytes())
        self._first = frame.pts if self._count == 0 else self._first
        self._rate.check(frame.pts - self._first, self._count)
        self._count += 1

    def finish(self) -> None:
        """Write out what is buffered."""
        self._file.flush()


_log = logging.getLogger(__name__)


class FrameWriter(Protocol):
    """One kind of output: frames in order, then `finish`."""

    def write(self, frame: Frame) -> None: ...
    def finish(self) -> None: ...


class VideoWriter:
    """The frames' way out of the `with` block of `open_writer`."""

    def __init__(self, writer: FrameWriter, target: str, form: VideoFormat) -> None:
        self._writer, self._target = writer, target
        self._shape = (form.height, form.width, 3)
        self._written = False

    def write(self, frame: Frame) -> None:
        """Write one frame of the format's size; times must increase.

        Raises OutputError when writing fails, ConfigError for a frame of another size.
        """
        if frame.pixels.shape != self._shape:
            height, width = frame.pixels.shape[:2]
            raise ConfigError(
                f"frame of {width}x{height} for a video of {self._shape[1]}x{self._shape[0]}: "
                "resize it"
            )
        with explain_failure(self._target):
            self._writer.write(frame)
        self._written = True

    def add_sound(self, chunk: AudioChunk) -> None:
        """Take the next chunk of live sound; a target without sound drops it."""
        if isinstance(self._writer, Muxer):
            self._writer.add_sound(chunk)

    def _finish(self) -> None:
        if not self._written:
            raise OutputError(
                "there is no frame to write: choose a part of the video that has some"
            )
        with explain_failure(self._target):
            self._writer.finish()


@contextmanager
def open_writer(
    target: PathOrFile,
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
    - y4m, as "*.y4m", an open file or "-" for standard output; the latter two are written as
      frames come.

    Odd sizes are coded as 4:4:4. y4m, .avi and images have a fixed rate; y4m and images carry
    no audio and no texts. With `live_sound`, sound comes by `VideoWriter.add_sound`. `mark`
    goes into the tag "comment" of containers that have it, and into PNG and JPEG images as XMP.
    Raises ConfigError for a suffix of no video format, OutputError for an existing target
    (unless `overwrite`), a missing folder, no permission, a full disk.
    """
    name = shown(target)
    with ExitStack() as opened:
        with explain_failure(name):
            if not isinstance(target, str | Path):
                writer: FrameWriter = Y4mEncoder(_for_y4m(target), format, name)
            else:
                beside = Beside(audio, texts, mark, live_sound)
                writer = _opened(opened, name, format, beside, overwrite)
        if live_sound and not isinstance(writer, Muxer):
            _log.warning("%s carries no sound: left out, use .mp4 or .mkv", name)
        video = VideoWriter(writer, name, format)
        yield video
        video._finish()


def _for_y4m(file: BinaryIO) -> BinaryIO:
    """The same, unless its name asks for something else."""
    refuse_unwritable(file)
    name = shown(file)
    if "." in Path(name).name and not name.lower().endswith(".y4m"):
        raise ConfigError(f"an open file takes y4m, not what {name} says: give the path itself")
    return file


def _opened(
    opened: ExitStack, target: str, form: VideoFormat, beside: Beside, overwrite: bool
) -> FrameWriter:
    """The writer of `target`; what is to be closed or removed in the end goes to `opened`."""
    if target == STANDARD_OUTPUT:
        return Y4mEncoder(cast(BinaryIO, StandardOutput()), form, "standard output")
    pattern = image_pattern(target)
    if pattern is not None and is_numbered(pattern):
        folder = opened.enter_context(atomic_folder(pattern.parent))
        return ImageWriter(folder, pattern, form, beside.mark, overwrite)
    path = opened.enter_context(atomic_output(target, overwrite))
    if pattern is not None:
        return OneImageWriter(path, pattern, form, beside.mark)
    if target.lower().endswith(".y4m"):
        return Y4mEncoder(opened.enter_context(open(path, "wb")), form, target)
    muxer = Muxer(path, target, form, beside)
    opened.callback(muxer.close)
    return muxer
