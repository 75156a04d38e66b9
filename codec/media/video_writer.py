"""Writing video: a container chosen by suffix, numbered images, or y4m; complete or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from gsvc.codec.errors import ConfigError, OutputError
from gsvc.codec.frames import AudioChunk, Frame, VideoFormat
from gsvc.codec.media.image_writer import ImageWriter, image_pattern
from gsvc.codec.media.muxer import Muxer
from gsvc.codec.media.y4m import Y4mEncoder
from gsvc.codec.output import (
    STANDARD_OUTPUT,
    StandardOutput,
    atomic_folder,
    atomic_output,
    explain_failure,
)


class Writer(Protocol):
    """One kind of output: frames in order, then `finish`, or `abort` to write nothing."""

    def write(self, frame: Frame) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class VideoWriter:
    """The frames' way out of the `with` block of `open_writer`."""

    def __init__(self, writer: Writer, form: VideoFormat) -> None:
        self._writer = writer
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
        self._writer.write(frame)
        self._written = True

    def _finish(self) -> None:
        if not self._written:
            raise OutputError(
                "there is no frame to write: choose a part of the video that has some"
            )
        self._writer.finish()


def open_writer(
    target: str | Path,
    format: VideoFormat,
    *,
    audio: Sequence[AudioChunk] = (),
    overwrite: bool = False,
) -> AbstractContextManager[VideoWriter]:
    """Open a video for writing in a `with` block; it appears when the block ends without error.

    `target` is one of:
    - a path whose suffix names a container: .mp4, .mkv, .mov (H.264), .webm (VP9), .nut (lossless
      RGB), and others that FFmpeg knows, with its default codec;
    - numbered images, "out/%05d.png" or "out/" for the same;
    - y4m, as "*.y4m" or "-" for standard output, which is written as frames come.

    Odd sizes are coded as 4:4:4. y4m, .avi and images have a fixed rate; y4m and images carry no
    audio. Raises ConfigError for a suffix of no video format, OutputError for an existing target
    (unless `overwrite`), a missing folder, no permission, a full disk.
    """
    name = str(target)
    if name == STANDARD_OUTPUT:
        return _y4m_pipe(format)
    if name.lower().endswith(".y4m"):
        return _y4m_file(name, format, overwrite)
    pattern = image_pattern(name)
    if pattern is not None:
        return _images(pattern, format, overwrite)
    return _container(name, format, audio, overwrite)


@contextmanager
def _using(writer: Writer, form: VideoFormat) -> Iterator[VideoWriter]:
    video = VideoWriter(writer, form)
    try:
        yield video
        video._finish()
    except BaseException:
        writer.abort()
        raise


@contextmanager
def _y4m_pipe(form: VideoFormat) -> Iterator[VideoWriter]:
    file = cast(BinaryIO, StandardOutput())
    with _using(_Y4mWriter(file, STANDARD_OUTPUT, form), form) as video:
        yield video


@contextmanager
def _y4m_file(target: str, form: VideoFormat, overwrite: bool) -> Iterator[VideoWriter]:
    with (
        atomic_output(target, overwrite) as path,
        open(path, "wb") as file,
        _using(_Y4mWriter(file, target, form), form) as video,
    ):
        yield video


@contextmanager
def _images(pattern: Path, form: VideoFormat, overwrite: bool) -> Iterator[VideoWriter]:
    with (
        atomic_folder(pattern.parent) as folder,
        _using(ImageWriter(folder, pattern, form, overwrite), form) as video,
    ):
        yield video


@contextmanager
def _container(
    target: str, form: VideoFormat, audio: Sequence[AudioChunk], overwrite: bool
) -> Iterator[VideoWriter]:
    with (
        atomic_output(target, overwrite) as path,
        _using(Muxer(path, target, form, audio), form) as video,
    ):
        yield video


class _Y4mWriter:
    def __init__(self, file: BinaryIO, target: str, form: VideoFormat) -> None:
        self._file = file
        self._target = target
        with explain_failure(target):
            self._encoder = Y4mEncoder(file, form)

    def write(self, frame: Frame) -> None:
        with explain_failure(self._target):
            self._encoder.write(frame.pixels)

    def finish(self) -> None:
        with explain_failure(self._target):
            self._file.flush()

    def abort(self) -> None:
        """Nothing to do: the file's owner closes and removes it."""
