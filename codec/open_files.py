"""Open binary files of a caller in place of paths."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeAlias

from gsvc.codec.errors import GsvcError, WrongTypeError
from gsvc.codec.input import display_name

Place: TypeAlias = str | Path | BinaryIO
"""Where bytes come from or go to: a path, or a file opened in binary."""


def shown(place: Place) -> str:
    """The path as given, or the name of an open file."""
    return str(place) if isinstance(place, str | Path) else display_name(place)


def is_pipe(file: BinaryIO) -> bool:
    """Whether an open file can only be read once, from where it stands."""
    return not (hasattr(file, "seekable") and file.seekable())


@contextmanager
def local_path(source: Place) -> Iterator[str | Path]:
    """A path to what `source` holds: its own, or of an open file a copy of what is left to read.

    The copy lasts as long as the block, in the folder for temporary files. A GsvcError of the
    block calls it by the open file's name. Raises WrongTypeError for a file of text, or one that
    is open for writing alone.
    """
    if isinstance(source, str | Path):
        yield source
        return
    refuse_unreadable(source)
    if (own := _own_path(source)) is not None:
        yield own
        return
    with TemporaryDirectory(prefix="gsvc-") as folder:
        copy = Path(folder, Path(display_name(source)).name or "file")
        with open(copy, "wb") as file:
            shutil.copyfileobj(source, file)
        try:
            yield copy
        except GsvcError as error:
            raise type(error)(str(error).replace(str(copy), display_name(source))) from error


def refuse_unreadable(file: BinaryIO) -> None:
    """Raise WrongTypeError for what is no file of bytes to read."""
    try:
        is_readable = isinstance(file.read(0), bytes)
    except (AttributeError, OSError, ValueError):
        is_readable = False
    if not is_readable:
        raise WrongTypeError(f"{display_name(file)} cannot be read: open it in binary, for reading")


def refuse_unwritable(file: BinaryIO) -> None:
    """Raise WrongTypeError for what is no file to write bytes to."""
    try:
        file.write(b"")
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise WrongTypeError(
            f"{display_name(file)} cannot be written: open it in binary, for writing"
        ) from error


def _own_path(file: BinaryIO) -> Path | None:
    """The path of a file on a disk of which nothing was read yet."""
    try:
        path = Path(os.path.abspath(file.name))
        is_whole = not is_pipe(file) and file.tell() == 0 and path.is_file()
        return path if is_whole and os.path.samestat(os.fstat(file.fileno()), path.stat()) else None
    except (AttributeError, OSError, TypeError, ValueError):
        return None
