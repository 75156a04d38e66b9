"""Where bytes come from and go to: a path, a pattern of paths, "-", or a caller's open file."""

import glob
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeAlias

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, WrongTypeError

STANDARD_INPUT = "-"
"""The source that stands for standard input."""


def display_name(source: str | Path | BinaryIO) -> str:
    """The source's name in a message."""
    if not isinstance(source, str | Path):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "the open file"
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


NUMBER = re.compile(r"%(?:0?(\d+))?d")
"""What stands for a number in the names of images, %05d or %d; its group is the least digits."""


def is_glob(source: str | Path) -> bool:
    """Whether `source` is a pattern (has *, ?, [ or %05d) rather than the name of a file."""
    name = str(source)
    is_pattern = glob.has_magic(name) or ("://" not in name and bool(NUMBER.search(name)))
    return is_pattern and not os.path.lexists(source)


def matches(pattern: str) -> list[str]:
    """The paths that a pattern stands for, in no order; folders are left out."""
    shape = re.compile("")
    if len(NUMBER.findall(pattern)) == 1 and not glob.has_magic(pattern):
        before, least, after = NUMBER.split(pattern)
        digits = f"[0-9]{{{least or 1},}}"
        shape = re.compile(f"{re.escape(before)}{digits}{re.escape(after)}$")
        pattern = f"{glob.escape(before)}[0-9]*{glob.escape(after)}"
    found = glob.glob(pattern, recursive=True)
    return [path for path in found if shape.match(path) and not os.path.isdir(path)]


PathOrFile: TypeAlias = str | Path | BinaryIO
"""Where bytes come from or go to: a path, or a file opened in binary."""


def shown(place: PathOrFile) -> str:
    """The path as given, or the name of an open file."""
    return str(place) if isinstance(place, str | Path) else display_name(place)


def is_pipe(file: BinaryIO) -> bool:
    """Whether an open file can only be read once, from where it stands."""
    return not (hasattr(file, "seekable") and file.seekable())


@contextmanager
def local_path(source: PathOrFile) -> Iterator[str | Path]:
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


_MOST_BYTES = 1 << 16


def read_secret(path: str | Path) -> bytes:
    """What a file holds that only its owner can read, at most 64 KiB.

    Raises ConfigError for a file that is missing, too long, or open to its group or to others.
    """
    try:
        with open(path, "rb") as file:
            # Of the file that is open: a path could lead to another one by now.
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise ConfigError(f"{path} can be read or changed by others: chmod 600 {path}")
            secret = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: no key can be read there: {error.strerror}") from error
    if len(secret) > _MOST_BYTES:
        raise ConfigError(f"{path} is longer than any key: is it the right file?")
    return secret
