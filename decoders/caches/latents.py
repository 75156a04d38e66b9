"""The latent cache: a loop begins where one that drew something similar already was.

What is kept is how far a loop has moved its latents from where it began, so that another begins
from its own rendering and noise, moved as much. A loop that found nothing, or has no cache,
computes exactly what it would without this module.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gsvc.decoders.caches.depths import kept_steps, reuse_depth, steps_at
from gsvc.decoders.caches.embedding import Embedding, similarity
from gsvc.decoders.caches.store import DamagedEntry, EntryStore

_log = logging.getLogger(__name__)

_EMBEDDING = "embedding"


@dataclass(frozen=True)
class CacheReport:
    """What a cache did in this process, and holds."""

    loops: int
    hits: int
    steps: int
    """That the loops have in all."""
    saved: int
    """Of them, not computed."""
    evicted: int
    """Entries that went to make room."""
    damaged: int
    """Entries that could not be read, and went."""
    entries: int
    size: int
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
    """One run of a diffusion loop, see `LatentCache.begin`."""

    kind: str
    wanted: Embedding
    start: Tensor
    """The latents with which it begins."""
    steps: int
    done: int = 0
    """Steps that need not be computed."""
    state: Tensor = field(init=False)
    """The latents after them, to go on from."""
    moves: dict[int, Tensor] = field(default_factory=dict)
    """Steps done -> how far the latents have moved."""

    def __post_init__(self) -> None:
        self.state = self.start

    def passed(self, done: int, state: Tensor) -> None:
        """After `done` steps of all the latents are these."""
        if not self.done and done in kept_steps(self.steps):
            self.moves[done] = state - self.start


class LatentCache:
    """Intermediate latents by what was to be decoded, on disk.

    Entries are compared only within a `kind`: one text for all that must be equal, such as model,
    size and seed.
    """

    def __init__(self, folder: str | Path, capacity: int) -> None:
        """Use `capacity` bytes of a folder; 0: nothing is read or written.

        Raises ConfigError for a folder that holds something else, OutputError where it cannot be
        written.
        """
        self._store = EntryStore(Path(folder), capacity) if capacity > 0 else None
        self._embeddings: dict[Path, Embedding] = {}
        self._loops = self._hits = self._steps = self._saved = self._damaged = 0

    @property
    def is_on(self) -> bool:
        """Whether anything is read or written: at capacity 0, and on a full disk, nothing is."""
        return self._store is not None

    def begin(self, kind: str, wanted: Embedding, start: Tensor, steps: int) -> CachedLoop:
        """A loop of `steps` that begins with the latents `start`, or later if that can be.

        Who runs it goes on from `state` with step `done` (counted from 0), tells `passed` after
        each step, and hands it to `keep` in the end.
        """
        kind = f"{kind}, {steps} steps"
        loop = CachedLoop(kind, wanted, start, steps)
        self._loops, self._steps = self._loops + 1, self._steps + steps
        if self._store is None:
            return loop
        path, depth = self._nearest(self._store, kind, wanted)
        done = steps_at(depth, steps)
        if path is not None and done:
            move = self._read(self._store, path, _after(done))
            if move is not None and move.shape == start.shape:
                self._store.touch(path)
                loop.state, loop.done = start + move.to(start), done
                self._hits, self._saved = self._hits + 1, self._saved + done
        return loop

    def keep(self, loop: CachedLoop) -> None:
        """Keep what a whole loop computed; of one that began later nothing: errors would add up.

        A disk that cannot be written is warned of once, and the cache goes on without it.
        """
        if self._store is None or not loop.moves:
            return
        moves = {_after(done): move for done, move in loop.moves.items()}
        try:
            self._store.write(loop.kind, {_EMBEDDING: torch.from_numpy(loop.wanted), **moves})
        except OSError as error:
            _log.warning("%s: %s: going on without the cache", self._store.folder, error.strerror)
            self._store = None

    def report(self) -> CacheReport:
        """Hits and sizes so far."""
        entries, size = self._store.size() if self._store else (0, 0)
        return CacheReport(
            *(self._loops, self._hits, self._steps, self._saved),
            *(self._store.evicted if self._store else 0, self._damaged, entries, size),
        )

    def _nearest(self, store: EntryStore, kind: str, wanted: Embedding) -> tuple[Path | None, int]:
        """The most similar entry, and the depth at which it can be begun with."""
        paths = store.names(kind)
        alike = {
            path: similarity(held, wanted)
            for path in paths
            if self._is_held(store, path) and (held := self._embeddings[path]).shape == wanted.shape
        }
        best = max(alike, key=alike.__getitem__, default=None)
        return best, 0 if best is None else reuse_depth(alike[best])

    def _is_held(self, store: EntryStore, path: Path) -> bool:
        """Whether its embedding could be read, now or before."""
        if path not in self._embeddings:
            tensor = self._read(store, path, _EMBEDDING)
            if tensor is None:
                return False
            self._embeddings[path] = tensor.numpy().astype(np.float32)
        return True

    def _read(self, store: EntryStore, path: Path, name: str) -> Tensor | None:
        try:
            return store.read(path, name)
        except FileNotFoundError:  # another process has just removed it
            return None
        except DamagedEntry:
            self._damaged += 1
            store.remove(path)
            return None


def denoised(
    step: Callable[[Tensor, int], Tensor],
    start: Tensor,
    steps: int,
    *,
    cache: LatentCache,
    kind: str,
    wanted: Embedding,
) -> Tensor:
    """Run a loop of `steps` with a cache; `step` takes latents and the step's number, from 0."""
    loop = cache.begin(kind, wanted, start, steps)
    state = loop.state
    for number in range(loop.done, steps):
        state = step(state, number)
        loop.passed(number + 1, state)
    cache.keep(loop)
    return state


def _after(done: int) -> str:
    return f"after{done}"
