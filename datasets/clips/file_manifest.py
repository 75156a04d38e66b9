"""Manifests of the files of a set: a table `path,bytes,sha256`, and whether a folder agrees.

Publishers of test sets state no checksums. Who measures writes a manifest of their copy; who
repeats that checks theirs against it.
"""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.weights.model_files import sha256_of
from gsvc.datasets.annotated.truth import read_text

_COLUMNS = "path", "bytes", "sha256"
_DIGITS = set("0123456789abcdef")


class FileEntry(NamedTuple):
    """One file."""

    path: str
    """Below the folder, with / between names."""
    bytes: int
    sha256: str
    """64 hexadecimal digits."""


def folder_entries(folder: str | Path, but: str | Path) -> Iterator[FileEntry]:
    """All files of `folder_files`, with sizes and hashes. Raises InputError."""
    for name in folder_files(folder, but):
        path = Path(folder, name)
        try:
            yield FileEntry(name, path.stat().st_size, sha256_of(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def folder_files(folder: str | Path, but: str | Path) -> list[str]:
    """Paths of the files below a folder, sorted, but for one, which is their manifest.

    Names that begin with a dot are left out. Raises InputError where there is no such folder.
    """
    root, own = Path(folder), os.path.abspath(but)
    if not root.is_dir():
        raise InputError(f"{root}: is no folder: give the one that the set is in")
    found: list[Path] = []
    for at, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(at, name) for name in files if not name.startswith(".")]
    return sorted(one.relative_to(root).as_posix() for one in found if os.path.abspath(one) != own)


def manifest_text(entries: Sequence[FileEntry]) -> str:
    """The table of a manifest, CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    rows.writerows(entries)
    return text.getvalue()


def read_manifest(path: str | Path) -> list[FileEntry]:
    """The entries of a manifest. Raises InputError with the line of a fault."""
    path = Path(path)
    rows = csv.reader(read_text(path).splitlines())
    entries: dict[str, FileEntry] = {}
    try:
        if tuple(next(rows, ())) != _COLUMNS:
            raise ValueError(f"its first line must be {','.join(_COLUMNS)}")
        for row in rows:
            entry = _entry(row)
            if entry.path in entries:
                raise ValueError(f"{entry.path} is listed twice")
            entries[entry.path] = entry
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}:{max(1, rows.line_num)}: {error}") from error
    if not entries:
        raise InputError(f"{path}: lists no file: write one of a folder with files")
    return list(entries.values())


def _entry(row: list[str]) -> FileEntry:
    if len(row) != len(_COLUMNS):
        raise ValueError(f"{len(row)} columns: write {', '.join(_COLUMNS)}")
    path, size, digest = row
    parts = PurePosixPath(path)
    if not path or parts.is_absolute() or ".." in parts.parts or "\\" in path or "\0" in path:
        raise ValueError(f"{path!r} is no path below the folder")
    if not (size.isascii() and size.isdigit() and len(size) < 20):
        raise ValueError(f"{size!r} is no number of bytes")
    if len(digest) != 64 or not set(digest.lower()) <= _DIGITS:
        raise ValueError(f"{digest!r} is no SHA-256: 64 hexadecimal digits")
    return FileEntry(path, int(size), digest.lower())


def faults(folder: str | Path, entries: Sequence[FileEntry]) -> Iterator[str]:
    """What is missing or differs in a folder, a line for each file.

    Sizes are looked at first: only files of the right size are read.
    """
    for entry in entries:
        path = Path(folder, entry.path)
        try:
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                yield f"{path}: missing"
            elif size != entry.bytes:
                yield f"{path}: has {size} bytes, the manifest says {entry.bytes}"
            elif sha256_of(path) != entry.sha256:
                yield f"{path}: another content than the manifest's (SHA-256)"
        except OSError as error:
            yield f"{path}: cannot be read ({error.strerror})"
