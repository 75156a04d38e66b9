"""The latent cache: a diffusion loop begins where one that drew something similar already was.

After approximate caching (Agarwal et al., NSDI 2024): what two loops draw is decided late, so the
latents of one are a good place to start the other, the later the more alike the two are. Alike are
windows with light, detail and motion in the same places (`embedding`): embeddings of texts or
images do not see motion, nor where things are, and latents depend on both.

What is kept is how far a loop has moved its latents from where it began, so that another begins
from its own rendering and noise, moved as much. A loop that found nothing, or has no cache,
computes exactly what it would without this module.

Entries lie on disk, at most so many bytes; the least recently used go first. An entry is a
safetensors file that appears by rename, whole or not at all, and never changes. Any number of
processes may share a folder: who writes or removes holds its lock, who reads needs none and takes a
file that has gone for one that never was.
"""

import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import cv2
import google_crc32c
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gsvc.codec.media.output import explain_failure, own_folder

LOOP = 50
"""Steps of the loop that depths are told in; of a shorter loop they are the same share."""
DEPTHS = (5, 10, 15, 20, 25)
"""Where latents are kept."""
_TABLE = ((0.95, 25), (0.90, 20), (0.85, 15), (0.75, 10), (0.65, 5))
"""Similarity over which a depth is taken, the published figures."""


def reuse_depth(similarity: float) -> int:
    """The depth, of `LOOP`, up to which a loop may take another's latents; 0: it may not."""
    return next((depth for least, depth in _TABLE if similarity > least), 0)


def steps_at(depth: int, steps: int) -> int:
    """How many steps of a loop of `steps` a depth is, rounded down; 0: none are saved."""
    return depth * steps // LOOP


Embedding: TypeAlias = NDArray[np.float32]
"""(d,), of length 1. The similarity of two is their product, at most 1."""

_CELLS = 16, 12  # columns and rows of the grid on which a frame is seen
_BRIGHTNESS = 0.5  # weight of a frame's mean colour beside its layout
_FLOOR = 0.02
"""Contrast, of [-1, 1], below which differences count little: two still windows are alike."""


def embedding(rendering: NDArray[np.uint8]) -> Embedding:
    """Of a window, RGB uint8 (n, H, W, 3); n may be 1. Windows of equal n can be compared."""
    seen = [_seen(frame) for frame in rendering]
    color = np.stack([color for color, _ in seen])
    detail = np.stack([detail for _, detail in seen])
    mean = color.mean((1, 2), keepdims=True)
    brightness = _BRIGHTNESS * np.sqrt(color[0, ..., 0].size) * mean
    parts = [
        _unit(color - mean, brightness),
        _unit(detail - detail.mean((1, 2), keepdims=True)),
        _unit(np.diff(color, axis=0)),
    ]
    return np.concatenate(parts) / np.float32(np.sqrt(len(parts)))


def similarity(left: Embedding, right: Embedding) -> float:
    """From -1 to 1; 1: the same."""
    return float(left @ right)


def _seen(frame: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Colour in [-1, 1] (rows, columns, 3) and detail (rows, columns) of each cell."""
    color = cv2.resize(frame, _CELLS, interpolation=cv2.INTER_AREA).astype(np.float32) / 127.5 - 1
    gray = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY).astype(np.float32) / 127.5
    slopes = np.abs(cv2.Sobel(gray, -1, 1, 0)) + np.abs(cv2.Sobel(gray, -1, 0, 1))
    return color, np.sqrt(cv2.resize(slopes, _CELLS, interpolation=cv2.INTER_AREA))


def _unit(*parts: NDArray[np.float32]) -> Embedding:
    """Of length 1, with a constant beside the values: where all are small they do not differ."""
    values = np.concatenate([part.ravel() for part in parts])
    floor = _FLOOR * np.sqrt(max(values.size, 1))
    whole = np.append(values, np.float32(floor)).astype(np.float32)
    return whole / np.float32(np.linalg.norm(whole))


_LOCK = "gsvc-latents.lock"  # marks a folder as one whose files may be removed
_SUFFIX = ".safetensors"
_FORMAT = "gsvc-latents-1"


class DamagedEntry(Exception):
    """A file is no entry, or not the one that was written."""


class EntryStore:
    """A folder of entries. Entries of one `kind` lie together."""

    def __init__(self, folder: Path, capacity: int) -> None:
        """Make the folder where it is missing; keep it under `capacity` bytes from now on."""
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
    return f"{google_crc32c.value(tensor.reshape(-1).view(torch.uint8).numpy().tobytes()):08x}"


_log = logging.getLogger(__name__)

_EMBEDDING = "embedding"


@dataclass
class CacheReport:
    """What a cache did in this process, and holds."""

    loops: int = 0
    hits: int = 0
    steps: int = 0
    """That the loops have in all."""
    saved: int = 0
    """Of them, not computed."""
    evicted: int = 0
    """Entries that went to make room."""
    damaged: int = 0
    """Entries that could not be read, and went."""
    entries: int = 0
    size: int = 0
    """Bytes that all entries take."""

    @property
    def hit_rate(self) -> float:
        """From 0 to 1."""
        return self.hits / self.loops if self.loops else 0.0

    def __str__(self) -> str:
        return (
            f"latent cache: {self.hits} of {self.loops} loops began from another's latents "
            f"({self.hit_rate:.0%}), {self.saved} of {self.steps} steps saved; "
            f"{self.entries} entries, {self.size / 1e6:.1f} MB"
        )


@dataclass
class CachedLoop:
    """One run of a diffusion loop, see `LatentCache.begin`; made without a cache, it keeps none."""

    start: Tensor
    """The latents with which it begins."""
    steps: int
    done: int = 0
    """Steps that need not be computed."""
    state: Tensor = field(init=False)
    """The latents after them, to go on from."""
    moves: dict[int, Tensor] = field(default_factory=dict)
    """Steps done -> how far the latents have moved."""
    kept: "Callable[[CachedLoop], None] | None" = None
    """Is given the loop when it has ended."""

    def __post_init__(self) -> None:
        self.state = self.start

    def passed(self, done: int, state: Tensor) -> None:
        """After `done` steps of all the latents are these."""
        # A short loop has few places where latents are kept.
        if self.kept and not self.done and done in {steps_at(x, self.steps) for x in DEPTHS}:
            self.moves[done] = state - self.start

    def keep(self) -> None:
        """The loop has ended."""
        if self.kept and self.moves:
            self.kept(self)


class LatentCache:
    """Intermediate latents by what was to be decoded, on disk.

    Entries are compared only within a `kind`: a text of what must be equal: model, size, seed.
    """

    def __init__(self, folder: str | Path, capacity: int) -> None:
        """Use `capacity` bytes of a folder; 0: nothing is read or written.

        Raises ConfigError for a folder of something else, OutputError where it cannot be written.
        """
        self._store = EntryStore(Path(folder), capacity) if capacity > 0 else None
        self._embeddings: dict[Path, Embedding] = {}
        self._told = CacheReport()

    @property
    def is_on(self) -> bool:
        """Whether anything is read or written: at capacity 0, and on a full disk, nothing is."""
        return self._store is not None

    def begin(self, kind: str, wanted: Embedding, start: Tensor, steps: int) -> CachedLoop:
        """A loop of `steps` that begins with the latents `start`, or later if that can be.

        Who runs it goes on from `state` with step `done` (counted from 0), tells `passed` after
        each step, and `keep` in the end.
        """
        kind = f"{kind}, {steps} steps"
        loop = CachedLoop(start, steps, kept=partial(self._keep, kind, wanted))
        self._told.loops += 1
        self._told.steps += steps
        if self._store is None:
            return loop
        path, depth = self._nearest(self._store, kind, wanted)
        done = steps_at(depth, steps)
        if path is not None and done:
            move = self._read(self._store, path, f"after{done}")
            if move is not None and move.shape == start.shape:
                self._store.touch(path)
                loop.state, loop.done = start + move.to(start), done
                self._told.hits += 1
                self._told.saved += done
        return loop

    def _keep(self, kind: str, wanted: Embedding, loop: CachedLoop) -> None:
        """Keep what a whole loop computed; of one that began later nothing: errors would add up. A
        disk that cannot be written is warned of once, and the cache goes on without it."""
        if self._store is None:
            return
        moves = {f"after{done}": move for done, move in loop.moves.items()}
        try:
            self._store.write(kind, {_EMBEDDING: torch.from_numpy(wanted), **moves})
        except OSError as error:
            _log.warning("%s: %s: going on without the cache", self._store.folder, error.strerror)
            self._store = None

    def report(self) -> CacheReport:
        """Hits and sizes so far."""
        if self._store is not None:
            self._told.evicted = self._store.evicted
            self._told.entries, self._told.size = self._store.size()
        return self._told

    def _nearest(self, store: EntryStore, kind: str, wanted: Embedding) -> tuple[Path | None, int]:
        alike = {}
        for path in store.names(kind):
            if path not in self._embeddings:
                tensor = self._read(store, path, _EMBEDDING)
                if tensor is None:
                    continue
                self._embeddings[path] = tensor.numpy().astype(np.float32)
            if (held := self._embeddings[path]).shape == wanted.shape:
                alike[path] = similarity(held, wanted)
        best = max(alike, key=alike.__getitem__, default=None)
        return best, 0 if best is None else reuse_depth(alike[best])

    def _read(self, store: EntryStore, path: Path, name: str) -> Tensor | None:
        try:
            return store.read(path, name)
        except FileNotFoundError:  # another process has just removed it
            return None
        except DamagedEntry:
            self._told.damaged += 1
            store.remove(path)
            return None
