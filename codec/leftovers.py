"""Temporary files and folders: one that nobody holds a lock on was left by a killed process."""

import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FRESH = 10.0
"""Seconds in which another process may have made a file and not yet locked it."""


def temporary_name(name: str) -> str:
    """A hidden name of its own for what will be called `name`."""
    return f".{secrets.token_hex(4)}.{name}"


@contextmanager
def held(temporary: Path) -> Iterator[None]:
    """Lock a temporary file or folder in the `with` block, where the system can."""
    handle = os.open(temporary, os.O_RDONLY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove what killed processes left in `folder` when they wrote `name`."""
    shape = re.compile(r"\.[0-9a-f]{8}\." + re.escape(name))
    with suppress(OSError):
        for path in folder.iterdir():
            if shape.fullmatch(path.name) and _is_left(path):
                _remove(path)


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


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
