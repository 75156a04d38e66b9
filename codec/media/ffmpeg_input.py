"""Opening media with FFmpeg (PyAV), with a one-line error for a source that cannot be read."""

import io
import os
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast

import av
from av.container import InputContainer

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.media.places import STANDARD_INPUT, SUFFIX, display_name

# These demuxers draw any text file as an animation.
_TEXT_ART = {"tty", "bin", "xbin", "adf", "idf"}

# Tags of old files may not be UTF-8: PyAV 18 would fail there, 19 never does.
_LENIENT: dict[str, Any] = (
    {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Rational(Protocol):
    """PyAV's rationals: Fraction or its own AVRational."""

    @property
    def numerator(self) -> int: ...
    @property
    def denominator(self) -> int: ...


class InputPipe:
    """Standard input as a file for FFmpeg, without seeking.

    An exception must not travel through FFmpeg: it ends the stream and is kept for `check`.
    """

    name = display_name(STANDARD_INPUT)

    size = 0
    """Bytes read so far."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None

    def read(self, size: int) -> bytes:
        try:
            data = cast(io.BufferedReader, sys.stdin.buffer).read1(size)
        except BaseException as error:  # noqa: BLE001 - raised again by `check`
            self.failure = error
            return b""
        self.size += len(data)
        return data

    def check(self) -> None:
        """Raise what reading failed with, if it did; an I/O error as InputError."""
        if isinstance(self.failure, OSError):
            raise InputError(
                f"standard input cannot be read ({self.failure.strerror}): "
                "check the program before it"
            ) from self.failure
        if self.failure is not None:
            raise self.failure

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def fraction(value: Rational | None) -> Fraction | None:
    """A PyAV rational as a Fraction; None unless it is set (PyAV 19: not 0/1) and positive."""
    if not value or value.denominator == 0 or value.numerator <= 0:
        return None
    return Fraction(value.numerator, value.denominator)


def open_media(source: str | Path, options: dict[str, str] | None = None) -> InputContainer:
    """Open a file or URL, with options of FFmpeg. Raises InputError when it cannot read it."""
    name = str(source)
    if not _URL.match(name):
        _check_file(Path(source))
        # FFmpeg takes the text before a colon for a protocol.
        name = f"file:{name}" if ":" in name else name
    try:
        container: InputContainer = av.open(name, "r", options=options, **_LENIENT)
    except av.FFmpegError as error:
        is_stream = Path(source).suffix == SUFFIX
        why = "this is a stream: run gsvc decode first" if is_stream else reason(error)
        raise InputError(f"{source}: {why}") from error
    if container.format.name in _TEXT_ART:
        container.close()
        raise InputError(
            f"{source}: this is text, not a video: give a video file or a glob of images"
        )
    return container


def open_pipe(pipe: InputPipe) -> InputContainer:
    """Open y4m on standard input. Raises InputError when it carries anything else."""
    advice = "pipe y4m into it: ffmpeg -i INPUT -f yuv4mpegpipe -pix_fmt yuv420p - | gsvc ..."
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise InputError(f"standard input is not connected to a video: {advice}")
    try:
        return av.open(pipe, "r", format="yuv4mpegpipe")
    except av.FFmpegError as error:
        pipe.check()
        raise InputError(f"standard input is not y4m video: {advice}") from error


def reason(error: av.FFmpegError) -> str:
    """FFmpeg's error in plain words, with what to do."""
    if isinstance(error, PermissionError):
        return "no permission to read it: check its mode and owner"
    if isinstance(error, av.error.InvalidDataError):
        return "not a video that FFmpeg can read: check that the file is whole and really a video"
    return f"FFmpeg cannot read it ({error.strerror}): try to convert it with ffmpeg first"


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(f"{path}: this is a folder: give a video, or images as '{path}/*.png'")
        if not path.exists():
            raise InputError(f"{path}: no such file: check the name")
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty: copy or download it again")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it: check its mode and owner")
