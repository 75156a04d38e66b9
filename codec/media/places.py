"""Where bytes come from and go to: a path, a pattern of paths, "-", or a caller's open file."""

import glob
import io
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeAlias, cast

from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.pieces import MOST_PIECE_BYTES, Gathered, gather, is_piece
from gsvc.codec.media.output import STANDARD_OUTPUT, StandardOutput, atomic_output

STANDARD_INPUT = "-"
"""The source that stands for standard input."""


def display_name(source: str | Path | BinaryIO | Sequence[str | Path]) -> str:
    """The source's name in a message."""
    if isinstance(source, list | tuple):
        return f"{len(source)} pieces"
    if not isinstance(source, str | Path):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "the open file"
    name = "standard input" if str(source) == STANDARD_INPUT else str(source)
    return re.sub(r"(?<=://)[^/@]+@", "", name)  # the password of a camera


DEVICE, SDP = "/dev/video", ".sdp"
"""How the name of a V4L2 device begins, and that of a session description (RTP) ends."""


def is_url(source: str | Path) -> bool:
    """Whether this is no path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", str(source)) is not None


def is_live(source: str | Path) -> bool:
    """Whether this may be a camera: a URL, a V4L2 device, a session description."""
    return is_url(source) or str(source).startswith(DEVICE) or Path(source).suffix == SDP


def is_read_once(source: str | Path) -> bool:
    """Whether this is standard input or a pipe with a name, as <(command) has."""
    return str(source) == STANDARD_INPUT or Path(source).is_fifo()


def opens_once(source: str | Path) -> bool:
    """Whether pictures and sound come by opening this a single time: of pipes and of cameras."""
    return is_read_once(source) or is_live(source)


NUMBER = re.compile(r"%(?:0?(\d+))?d")
"""What stands for a number in the names of images, %05d or %d; its group is the least digits."""


def is_glob(source: str | Path) -> bool:
    """Whether `source` is a pattern (has *, ?, [ or %05d) rather than the name of a file."""
    name = str(source)
    is_pattern = not is_url(source) and bool(glob.has_magic(name) or NUMBER.search(name))
    return is_pattern and not os.path.lexists(source)


def matches(pattern: str) -> list[str]:
    """The paths that a pattern stands for, in no order; folders are left out."""
    shape = re.compile("")
    folder, name = os.path.split(pattern)
    if len(NUMBER.findall(pattern)) == 1 and not re.search(r"[*?]", pattern):
        before, least, after = NUMBER.split(pattern)
        digits = f"[0-9]{{{least or 1},}}"
        shape = re.compile(f"{re.escape(before)}{digits}{re.escape(after)}$")
        pattern = f"{glob.escape(before)}[0-9]*{glob.escape(after)}"
    elif os.path.isdir(folder):  # brackets in its name are no pattern
        pattern = os.path.join(glob.escape(folder), name)
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
        except errors.GsvcError as error:
            raise type(error)(str(error).replace(str(copy), display_name(source))) from error


def refuse_unreadable(file: BinaryIO) -> None:
    """Raise WrongTypeError for what is no file of bytes to read."""
    try:
        is_readable = isinstance(file.read(0), bytes)
    except (AttributeError, OSError, ValueError):
        is_readable = False
    if not is_readable:
        why = f"{display_name(file)} cannot be read: open it in binary, for reading"
        raise errors.WrongTypeError(why)


def refuse_unwritable(file: BinaryIO) -> None:
    """Raise WrongTypeError for what is no file to write bytes to."""
    try:
        file.write(b"")
    except (AttributeError, OSError, TypeError, ValueError) as error:
        why = f"{display_name(file)} cannot be written: open it in binary, for writing"
        raise errors.WrongTypeError(why) from error


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
                why = f"{path} can be read or changed by others: chmod 600 {quote(str(path))}"
                raise errors.ConfigError(why)
            secret = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise errors.ConfigError(f"{path}: no key can be read there: {error.strerror}") from error
    if len(secret) > _MOST_BYTES:
        raise errors.ConfigError(f"{path} is longer than any key: is it the right file?")
    return secret


def refuse_same(source: PathOrFile | Sequence[str | Path], target: PathOrFile) -> None:
    """Raise ConfigError where the target is the source itself, which writing would destroy."""
    if not (isinstance(source, str | Path) and isinstance(target, str | Path)):
        return
    are_files = STANDARD_OUTPUT not in (str(source), str(target)) and os.path.exists(source)
    if are_files and os.path.exists(target) and os.path.samefile(source, target):
        why = f"{target} is the source itself: choose another name for the output"
        raise errors.ConfigError(why)


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
            if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
                why = "standard input is not connected to a stream: gsvc encode ... -o - | gsvc ..."
                raise errors.InputError(why)
            yield cast(io.BufferedReader, sys.stdin.buffer)
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
    except errors.BitstreamError as error:
        raise type(error)(f"{name}: {error}") from error
    except FileNotFoundError as error:
        if isinstance(error, errors.InputError) or error.filename != str(source):
            raise
        raise errors.InputError(f"{name}: no such file: check the name") from error
    except IsADirectoryError as error:
        raise errors.InputError(f"{name}: this is a folder: give a .gsv file") from error
    except PermissionError as error:
        why = f"{name}: no permission to read it: check its mode and owner"
        raise errors.InputError(why) from error


def is_container(source: str | Path) -> bool:
    """Whether this is a file in MP4 or Matroska, by its first bytes."""
    head = b"" if str(source) == STANDARD_INPUT else _first_bytes(source)
    return head.startswith(_EBML) or head[4:] == b"ftyp"


def _first_bytes(path: str | Path) -> bytes:
    """The first eight of a file; none where it is no file or cannot be read."""
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except OSError:
        return b""


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
    # A shell may turn `*.mp4` into a source and a target: no stream may replace a video.
    is_other = os.path.isfile(target) or not os.path.exists(target)  # neither pipe nor device
    if is_other and Path(target).suffix.lower() != SUFFIX:
        raise errors.ConfigError(
            f"{target} does not end in {SUFFIX}, so it is not written: name the stream "
            f"NAME{SUFFIX} (-o); quote a pattern of images, encode several videos into a folder"
        )
    with atomic_output(target, overwrite) as path, open(path, "wb") as file:
        yield file


class PieceStream(io.BytesIO):
    """What there is of a stream that came in pieces."""

    def __init__(self, found: Gathered) -> None:
        super().__init__(found.stream)
        self.found = found
        """What the pieces make."""

    @property
    def lack(self) -> errors.TruncatedStreamError | None:
        """Says which pieces are missing, how many are needed, what is shown; None: all is here."""
        found = self.found
        if not found.missing:
            return None
        names, here = ", ".join(map(str, found.missing)), found.count - len(found.missing)
        parity = f" and {found.parity} of parity" * bool(found.parity)
        then = " as a still" * (found.is_preview or bool(found.drafts))
        then += f" until {found.missing[0]} comes" * bool(found.drafts)
        told = f"{here}{parity} came, {found.count} are needed; {found.shown} is shown{then}"
        why = f"missing pieces: {names} (of 0 to {found.count - 1}); {told}"
        return errors.TruncatedStreamError(why)


def piece_paths(source: PathOrFile) -> list[str]:
    """The files of pieces that a folder, a pattern, or the name of one stands for; else none."""
    if not isinstance(source, str | Path):
        return []
    paths = [str(source)]
    if os.path.isdir(source):
        paths = [entry.path for entry in os.scandir(source) if entry.is_file()]
    elif is_glob(source):
        paths = matches(str(source))
    return sorted(path for path in paths if is_piece(_first_bytes(path)))


@contextmanager
def _gathered(source: PathOrFile, paths: Sequence[str | Path]) -> Iterator[PieceStream]:
    pieces = []
    with named_errors(source):
        for path in paths:
            with open(path, "rb") as file:
                pieces.append(file.read(MOST_PIECE_BYTES))
        yield PieceStream(gather(pieces))


@contextmanager
def open_any(source: PathOrFile | Sequence[str | Path]) -> Iterator[BinaryIO]:
    """`open_stream`, of a stream, of a video file that one was mapped into, or of its pieces: a
    folder, a pattern or a list of them, a `PieceStream`."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        with _gathered("the pieces", source) as pieces:
            yield pieces
    elif paths := piece_paths(source):
        with _gathered(source, paths) as pieces:
            yield pieces
    elif not isinstance(source, str | Path) and not is_pipe(source):
        with local_path(source) as path, open_any(path) as file:
            yield file
    elif isinstance(source, str | Path) and is_container(source):
        from gsvc.codec.media.mapping import open_mapped  # late: a stream needs no FFmpeg

        with named_errors(source), open_mapped(source) as file:
            yield file
    else:
        with open_stream(source) as file:
            yield file
