"""Streams in files and pipes: errors name the file, and a file appears only when it is complete."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, InputError
from gsvc.codec.media.output import STANDARD_OUTPUT, StandardOutput, atomic_output
from gsvc.codec.media.places import (
    STANDARD_INPUT,
    PathOrFile,
    display_name,
    is_pipe,
    local_path,
    refuse_unreadable,
    refuse_unwritable,
)

SUFFIX = ".gsv"
"""What the name of a stream ends in."""

_EBML = b"\x1a\x45\xdf\xa3"


@contextmanager
def open_stream(source: PathOrFile) -> Iterator[BinaryIO]:
    """A stream's bytes from a file, or from standard input for "-"; closed at the end of the block.

    Of an open file it is what is left to read; the file stays open.

    A BitstreamError raised in the block gets the source's name; an I/O error becomes an InputError.
    """
    with named_errors(source):
        if str(source) == STANDARD_INPUT:
            yield _standard_input()
            return
        if not isinstance(source, str | Path) and is_pipe(source):
            refuse_unreadable(source)
            yield source
            return
        with local_path(source) as path, open(path, "rb") as file:
            yield file


@contextmanager
def named_errors(source: PathOrFile) -> Iterator[None]:
    """What `open_stream` does to the errors of its block."""
    name = display_name(source)
    try:
        yield
    except BitstreamError as error:
        raise type(error)(f"{name}: {error}") from error
    except FileNotFoundError as error:
        if isinstance(error, InputError) or error.filename != str(source):
            raise
        raise InputError(f"{name}: no such file: check the name") from error
    except IsADirectoryError as error:
        raise InputError(f"{name}: this is a folder: give a .gsv file") from error
    except PermissionError as error:
        raise InputError(f"{name}: no permission to read it: check its mode and owner") from error


def is_container(source: str | Path) -> bool:
    """Whether this is a file in MP4 or Matroska, by its first bytes."""
    path = Path(source)
    if str(source) == STANDARD_INPUT or not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(8)
    except OSError:
        return False
    return head.startswith(_EBML) or head[4:] == b"ftyp"


@contextmanager
def create_stream(target: PathOrFile, overwrite: bool) -> Iterator[BinaryIO]:
    """A file for a stream, which appears at the end of the block; "-" is standard output.

    An open file is written to as the stream is made, and stays open.

    Raises ConfigError for a name without .gsv, OutputError as `atomic_output` does.
    """
    if str(target) == STANDARD_OUTPUT:
        yield cast(BinaryIO, StandardOutput())
        return
    if not isinstance(target, str | Path):
        refuse_unwritable(target)
        yield target
        target.flush()
        return
    _refuse_other_files(Path(target))
    with atomic_output(target, overwrite) as path, open(path, "wb") as file:
        yield file


def _refuse_other_files(target: Path) -> None:
    """A shell may turn `*.mp4` into a source and a target: no stream may replace a video."""
    is_other = target.is_file() or not target.exists()  # neither a pipe nor a device
    if is_other and target.suffix.lower() != SUFFIX:
        raise ConfigError(
            f"{target} does not end in {SUFFIX}, so it is not written: name the stream with "
            f"-o NAME{SUFFIX}; quote a pattern of images, encode several videos into a folder"
        )


def _standard_input() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise InputError(
            "standard input is not connected to a stream: gsvc encode ... -o - | gsvc ..."
        )
    return cast(io.BufferedReader, sys.stdin.buffer)
