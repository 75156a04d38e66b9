"""Loops of pretrained models that begin where one of a similar window already was."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gsvc.decoders.refiners.pretrained.window import Window

if TYPE_CHECKING:
    from torch import Tensor

    from gsvc.decoders.refiners.pretrained.base import PretrainedWindows


class LateLoop:
    """The loop of a window with the latent cache of its back end, if there is one."""

    def __init__(
        self, backend: "PretrainedWindows", start: "Tensor", window: Window, steps: int, seed: int
    ) -> None:
        """`start`: latents of what is to be restored, by which one window differs from another."""
        self.done = 0
        """Steps that need not be computed."""
        self.state = start
        """The latents after them."""
        self._loop, self._cache = None, backend.latents
        if self._cache is None:
            return
        from gsvc.decoders.caches.embedding import embedding

        size = "x".join(map(str, window.frames.shape))
        kind = f"{backend.name} {backend.revision}, {size}, keys {sorted(window.keys)}, seed {seed}"
        self._loop = self._cache.begin(kind, embedding(window.frames), start, steps)
        self.done, self.state = self._loop.done, self._loop.state

    def passed(self, done: int, state: "Tensor") -> None:
        """After `done` steps of all the latents are these."""
        if self._loop is not None:
            self._loop.passed(done, state)

    def keep(self) -> None:
        """The loop has ended."""
        if self._cache is not None and self._loop is not None:
            self._cache.keep(self._loop)

    @contextmanager
    def cut(self, pipeline: Any) -> Iterator[None]:
        """In it a pipeline, which itself cannot begin late, is shown the steps that are left."""
        if not self.done:
            yield
            return
        whole = pipeline.scheduler
        pipeline.scheduler = _LateScheduler(whole, self.done)
        try:
            yield
        finally:
            pipeline.scheduler = whole


class _LateScheduler:
    """A scheduler whose first steps a pipeline does not see; it itself counts all of them."""

    def __init__(self, scheduler: Any, done: int) -> None:
        self._scheduler, self._done = scheduler, done

    @property
    def timesteps(self) -> "Tensor":
        """Those that are left."""
        left: Tensor = self._scheduler.timesteps[self._done :]
        return left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)
