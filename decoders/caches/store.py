"""Entries on disk: at most so many bytes, the least recently used go first.

An entry is a safetensors file that appears by rename, whole or not at all, and never changes. Any
number of processes may share a folder: who writes or removes holds its lock, who reads needs none
and takes a file that has gone for one that never was.
"""

import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import google_crc32c
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gsvc.codec.output import explain_failure, own_folder

_LOCK = "gsvc-latents.lock"
"""Marks a folder as one whose files may be removed."""
_SUFFIX = ".safetensors"
_FORMAT = "gsvc-latents-1"


class DamagedEntry(Exception):
    """A file is no entry, or not the one that was written."""


class EntryStore:
    """A folder of entries. Entries of one `kind` lie together."""

    def __init__(self, folder: Path, capacity: int) -> None:
        """Open the folder, made where missing, and keep it under `capacity` bytes from now on.

        Raises ConfigError for a folder that holds something else, OutputError where it cannot be
        written.
        """
        self.folder, self.capacity = folder, capacity
        self.evicted = 0
        """Entries that this process removed to make room."""
        own_folder(folder, _LOCK)
        with explain_failure(folder), self._locked():
            self._make_room(0)

    def names(self, kind: str) -> list[Path]:
        """The entries of a kind."""
        with suppress(FileNotFoundError):
            return [path for path in self._place(kind).iterdir() if path.suffix == _SUFFIX]
        return []

    def size(self) -> tuple[int, int]:
        """Entries, and bytes in all."""
        sizes = [size for _, size, _ in self._entries()]
        return len(sizes), sum(sizes)

    def read(self, path: Path, name: str) -> Tensor:
        """One tensor of an entry. Raises DamagedEntry, FileNotFoundError when it has gone."""
        try:
            with safe_open(path, framework="pt") as file:
                told = file.metadata() or {}
                tensor: Tensor = file.get_tensor(name)
        except FileNotFoundError:
            raise
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            if not path.exists():  # torch maps the file itself, and says so in words of its own
                raise FileNotFoundError(path) from error
            raise DamagedEntry(path) from error
        if told.get("format") != _FORMAT or told.get(name) != _checksum(tensor):
            raise DamagedEntry(path)
        return tensor

    def touch(self, path: Path) -> None:
        """It was used now, by a clock finer than the one that files get by themselves."""
        now = time.time_ns()
        with suppress(FileNotFoundError):
            os.utime(path, ns=(now, now))

    def write(self, kind: str, tensors: Mapping[str, Tensor]) -> bool:
        """Add an entry, unless it alone is over the capacity. Raises OSError."""
        held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        told = {name: _checksum(tensor) for name, tensor in held.items()}
        data = save(held, {"format": _FORMAT, **told})
        if len(data) > self.capacity:
            return False
        place = self._place(kind)
        with self._locked():
            self._make_room(len(data))
            place.mkdir(exist_ok=True)
            temporary = place / f".{secrets.token_hex(8)}"
            try:
                temporary.write_bytes(data)
                self.touch(temporary)
                os.replace(temporary, place / f"{secrets.token_hex(8)}{_SUFFIX}")
            finally:
                temporary.unlink(missing_ok=True)
        return True

    def remove(self, path: Path) -> None:
        """Take an entry away."""
        with self._locked(), suppress(OSError):
            path.unlink()

    def _place(self, kind: str) -> Path:
        return self.folder / sha256(kind.encode()).hexdigest()[:16]

    def _entries(self) -> list[tuple[int, int, Path]]:
        """When each was used, in nanoseconds, and its bytes."""
        found = []
        for path in self.folder.glob(f"*/*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                told = path.stat()
                found.append((told.st_mtime_ns, told.st_size, path))
        return found

    def _make_room(self, wanted: int) -> None:
        """With the lock: until there is room, and without what killed processes left."""
        for rest in self.folder.glob("*/.????????????????"):
            rest.unlink(missing_ok=True)
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total + wanted <= self.capacity:
                break
            path.unlink(missing_ok=True)
            total -= size
            self.evicted += 1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        handle = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            if sys.platform != "win32":  # there one process at a time, please
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _checksum(tensor: Tensor) -> str:
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{google_crc32c.value(data):08x}"
