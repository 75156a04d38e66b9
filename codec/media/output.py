"""Writing files that appear only when they are complete; failures are told in one line.

A temporary file or folder that nobody holds a lock on was left by a killed process, and is removed.
"""

import errno
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gsvc.codec.bitstream.errors import SHORTAGES, ConfigError, OutputError

_LONGEST_ENDING = 245  # bytes of the 255 that a name may have
_FRESH = 10.0  # seconds in which another process may have made a file and not yet locked it


def temp_name(name: str) -> str:
    """A hidden name of its own for what will be called `name`."""
    return f".{secrets.token_hex(4)}.{_ending(name)}"


def _ending(name: str) -> str:
    """As much of a name as leaves a file system room for what comes before it."""
    while len(os.fsencode(name)) > _LONGEST_ENDING:
        name = name[1:]
    return name


@contextmanager
def held(temporary: Path) -> Iterator[None]:
    """Lock a temporary file or folder in the `with` block, where the system can."""
    handle = os.open(temporary, os.O_RDONLY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def remove_temp_files(folder: Path, name: str) -> None:
    """Remove what killed processes left in `folder` when they wrote `name`."""
    shape = re.compile(r"\.[0-9a-f]{8}\." + re.escape(_ending(name)))
    with suppress(OSError):
        for path in folder.iterdir():
            if shape.fullmatch(path.name) and _is_left(path):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _is_left(path: Path) -> bool:
    try:
        if time.time() - path.lstat().st_mtime < _FRESH:
            return False
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


STANDARD_OUTPUT = "-"
"""The target that stands for standard output."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
# Only writing fails with these. Any other OSError in the `with` block has another cause.
_WRITING_ONLY = _FULL | {errno.EFBIG, errno.EROFS}


@contextmanager
def atomic_output(target: str | Path, overwrite: bool) -> Iterator[Path]:
    """Yield the path of a temporary file beside `target`, which takes the target's name on success.

    On any exception, KeyboardInterrupt included, the temporary file is removed and the target stays
    as it was; what a killed process left, the next writer of the target removes. Devices and pipes
    are written directly. Raises OutputError when the target exists (unless `overwrite`), when it
    cannot be created, and when the disk is full.
    """
    with explain_failure(target):
        direct = _check_target(target, overwrite)
    if direct:
        with explain_failure(target, _WRITING_ONLY):
            yield Path(target)
        return
    final = Path(os.path.realpath(target))
    temporary = final.with_name(temp_name(final.name))
    remove_temp_files(final.parent, final.name)
    try:
        with explain_failure(target):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            with suppress(OSError):  # there is none, or the disk has no modes
                shutil.copymode(final, temporary)
        with held(temporary), explain_failure(target, _WRITING_ONLY):
            yield temporary
        with explain_failure(target):
            _sync(temporary)
            _check_target(target, overwrite)  # another process may have written it meanwhile
            os.replace(temporary, final)
            with suppress(OSError):  # some systems cannot sync a folder: the file is safe by now
                _sync(final.parent, os.O_RDONLY)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder where it is missing. Raises OutputError where it cannot be made."""
    with explain_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)


def own_folder(folder: Path, mark: str) -> None:
    """Make a folder where it is missing. Whoever calls leaves a file named `mark` in it.

    Raises ConfigError for a folder that holds something else, OutputError where it cannot be made.
    """
    make_folder(folder)
    with explain_failure(folder):
        if any(folder.iterdir()) and not (folder / mark).exists():
            raise ConfigError(f"{folder} holds other files: name an empty or new folder")


def note_settings(file: Path, settings: Mapping[str, object]) -> None:
    """Note as JSON what a folder's other files are made with, or compare with what was noted.

    Raises ConfigError for a folder begun with others, OutputError where it cannot be written.
    """
    own = json.loads(json.dumps(settings))
    if not file.exists():
        with atomic_output(file, overwrite=True) as part:
            part.write_text(json.dumps(own, sort_keys=True))
        return
    found = json.loads(file.read_text())
    if other := [name for name in own if found.get(name) != own[name]]:
        why = f"{file.parent} was begun with other {', '.join(other)}: name another folder"
        raise ConfigError(why)


def refuse_foreign(target: str | Path, beginning: bytes) -> None:
    """Raise OutputError for a file with something in it that does not begin so.

    For notes that replace those of an earlier run without being asked, and nothing else.
    """
    path = Path(target)
    with explain_failure(target):
        if not path.is_file():
            return
        with path.open("rb") as file:
            found = file.read(len(beginning))
    if found and found != beginning:
        raise OutputError(f"{target} holds something else: choose another name, or remove it")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; on success all its files move into `folder`, created where missing.

    Moving is one rename where `folder` is new, else one rename a file. On any exception the
    temporary folder is removed. Files of the same name are replaced. Raises OutputError as
    `atomic_output` does.
    """
    final = Path(os.path.realpath(folder))
    existed = final.is_dir()
    temporary = (final if existed else final.parent) / temp_name(final.name)
    remove_temp_files(temporary.parent, final.name)
    try:
        with explain_failure(folder):
            temporary.mkdir()
        with held(temporary), explain_failure(folder, _WRITING_ONLY):
            yield temporary
        with explain_failure(folder):
            files = sorted(temporary.iterdir())
            for file in files:
                _sync(file)
            if existed:
                for file in files:
                    os.replace(file, final / file.name)
            else:
                os.rename(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def explain_failure(target: str | Path, only: set[int] | None = None) -> Iterator[None]:
    """Turn an OSError (of an errno in `only`, if given) into an OutputError about `target`."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        raise OutputError(failure_text(target, error.errno, error.strerror)) from error


def failure_text(target: str | Path, code: int | None, text: str | None) -> str:
    """One line for a failed write: what is wrong and what to do."""
    name = "standard output" if str(target) == STANDARD_OUTPUT else str(target)
    if code in SHORTAGES:
        return SHORTAGES[code]
    if code in _FULL:
        return f"no space left to write {name}: free some or choose another folder"
    if code == errno.ENAMETOOLONG:
        return f"cannot write {name}: the name is too long, choose a shorter one"
    if code == errno.EFBIG:
        return f"{name} exceeds the largest file size here: see ulimit -f, or choose another disk"
    if code in _FORBIDDEN:
        return f"no permission to write {name}: choose another folder"
    if code in (errno.ENOENT, errno.ENOTDIR) and not Path(name).parent.is_dir():
        return f"cannot write {name}: folder {Path(name).parent} does not exist: create it first"
    if code == errno.EPIPE:
        return f"cannot write {name}: the program that reads it has ended"
    return f"cannot write {name} ({text or 'unknown error'}): choose another place"


class StandardOutput(io.RawIOBase):
    """Standard output in binary, unbuffered. Raises OutputError when it cannot be written."""

    def __init__(self) -> None:
        if sys.stdout is None or sys.__stdout__ is None or sys.stdout.closed:
            raise OutputError("standard output is closed: give the name of a file")
        if sys.stdout.isatty():
            raise OutputError("standard output is a terminal: pipe it, or give the name of a file")
        sys.stdout.flush()
        # A file of its own: after an error, Python finds nothing in a buffer to write at exit.
        self._file = io.FileIO(sys.stdout.fileno(), "wb", closefd=False)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(view)
        with explain_failure(STANDARD_OUTPUT):
            while view:
                view = view[self._file.write(view) :]
        return size


def _check_target(target: str | Path, overwrite: bool) -> bool:
    """Whether to write to `target` directly, because it is a device or a pipe."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(os.path.realpath(target))):
            raise
        return False
    if stat.S_ISDIR(mode):
        raise OutputError(f"{target} is a folder: give the name of a file in it")
    if not stat.S_ISREG(mode):
        return True
    if not overwrite:
        raise OutputError(f"{target} already exists: overwrite=True replaces it")
    return False


def _sync(path: Path, mode: int = os.O_RDWR) -> None:
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
