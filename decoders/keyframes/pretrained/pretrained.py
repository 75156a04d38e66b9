"""What all pretrained back ends share: windows on the model's grid, loading, noise, caches.

A back end gives its model's grid and multiples, and `_drawn`: a window in, its frames out. Nothing
here imports torch before a window comes.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.extras import Late
from gsvc.codec.weights.hub import check_hub_model, hub_folder, hub_model
from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES
from gsvc.decoders.keyframes.pretrained.gpu_memory import kind_for, need_of
from gsvc.decoders.keyframes.refiner import Backend, RefinerCost, WindowRefiner, enough_memory

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gsvc.decoders.keyframes.latent_cache import CachedLoop
    from gsvc.decoders.keyframes.pretrained import diffusers_pipeline as pipes
else:  # back ends are listed, and named in streams, on machines that have neither
    torch = Late("torch")
    pipes = Late("gsvc.decoders.keyframes.pretrained.diffusers_pipeline")

__all__ = ["PretrainedWindow", "PretrainedWindows", "pipes", "torch"]


@dataclass(frozen=True)
class PretrainedWindow:
    """Consecutive frames, and the keyframes that a model is given of them.

    Sides are padded with the pixels at the edge.
    """

    frames: NDArray[np.uint8]
    """The rendering, RGB (n, H, W, 3); n is 8k + 1."""
    keys: Mapping[int, Picture]
    """Keyframes by index, RGB uint8 (H, W, 3)."""
    confidence: NDArray[np.float32]
    """(n, H, W), 0 to 1."""
    size: tuple[int, int]
    """Height and width without padding."""

    def cropped(self, drawn: NDArray[np.uint8]) -> list[Picture]:
        """The frames of the window from those drawn, RGB uint8 (n or more, H, W, 3), padded."""
        height, width = self.size
        return [frame[:height, :width] for frame in drawn[: len(self.frames)]]


def keys_on_grid(keys: Mapping[int, Picture], grid: int, *, exact: bool) -> dict[int, Picture]:
    """At most one keyframe for every `grid` frames: those at multiples of it.

    Where there is none, `exact` gives none; else the one nearest to the multiple stands for it, if
    it lies less than half a grid away.
    """
    chosen: dict[int, int] = {}
    for at in sorted(keys):
        place = round(at / grid)
        now = chosen.get(place)
        if now is None or abs(at - place * grid) < abs(now - place * grid):
            chosen[place] = at
    return {at: keys[at] for place, at in chosen.items() if at == place * grid or not exact}


def late_loop(
    backend: "PretrainedWindows", start: "Tensor", window: PretrainedWindow, steps: int, seed: int
) -> "CachedLoop":
    """The loop of a window, with the latent cache of its back end, if there is one.

    `start`: latents of what is to be restored, by which one window differs from another.
    """
    from gsvc.decoders.keyframes.latent_cache import CachedLoop, embedding

    if backend.latents is None:
        return CachedLoop(start, steps)
    size = "x".join(map(str, window.frames.shape))
    kind = f"{backend.name} {backend.revision}, {size}, keys {sorted(window.keys)}, seed {seed}"
    return backend.latents.begin(kind, embedding(window.frames), start, steps)


@contextmanager
def steps_left(pipeline: Any, done: int) -> Iterator[None]:
    """In it a pipeline, which itself cannot begin late, is shown the steps after `done` ones."""
    if not done:
        yield
        return
    whole = pipeline.scheduler
    pipeline.scheduler = _LateScheduler(whole, done)
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


MOST_STEPS = 100


class Pretrained(Backend):
    """A back end whose weights the hub has, under its own name."""

    extra = "pretrained"
    most_steps: ClassVar[int] = MOST_STEPS
    """Evaluations of the network that it can be asked for."""
    frames: ClassVar[int] = 1
    """In a window; 1: a keyframe."""

    made_by: ClassVar[str] = ""
    """Class of diffusers that runs it; "": the one that the model names."""

    can_quantize = True
    _pipeline: Any = None
    _kind: str = "whole"

    @property
    def files(self) -> Sequence[Path]:
        """The safetensors of its folder. Raises MissingModelError where it is not whole."""
        folder = hub_folder(self.name)
        names = sorted(check_hub_model(self.name).files)
        return [folder / name for name in names if name.endswith(".safetensors")]

    @property
    def id(self) -> bytes:
        """4 bytes that stand for its name: a stream may be made for it before it is here."""
        return hub_model(self.name).hint

    @property
    def revision(self) -> str:
        """Of its files' hashes, and whether they are quantized.

        Raises MissingModelError where it is not here.
        """
        files = sorted(check_hub_model(self.name).files.items())
        return sha256(repr(files).encode()).hexdigest()[:16] + " int8" * self.quantize

    def check(self, height: int, width: int, *, steps: int) -> None:
        """See `Backend.check`: steps, the cache, and whether a GPU's memory will do."""
        if not 1 <= steps <= self.most_steps:
            only = "one step" if self.most_steps == 1 else f"1 to {self.most_steps} steps"
            raise ConfigError(f"{self.name} restores in {only}: choose as many")
        known = self.name in ARCHITECTURES
        if self.memory is not None or (known and self.device.startswith("cuda")):
            need = need_of(self.name, height, width, self.frames, quantized=self.quantize)
            self._kind = kind_for(need, self.memory, self.device)

    def cost(self, height: int, width: int) -> RefinerCost | None:
        """See `Backend.cost`; of a whole window."""
        if self.name not in ARCHITECTURES:
            return None
        from gsvc.decoders.keyframes.pretrained.architecture_work import ArchitectureWork

        return ArchitectureWork(ARCHITECTURES[self.name], height, width, self.frames).cost()

    def _loaded(self, pixels: int) -> Any:
        if self._pipeline is None:
            made_by = self.made_by or hub_model(self.name).pipeline
            held = self._kind, pixels, self.quantize
            self._pipeline = pipes.load_pipeline(self.name, made_by, self.device, *held)
        return self._pipeline

    def _prompt(self, pipeline: Any) -> "dict[str, Tensor]":
        network = getattr(pipeline, "transformer", None) or pipeline.unet
        return pipes.load_prompt(self.name, self.device, network.dtype)


class PretrainedWindows(Pretrained, WindowRefiner):
    """A back end that restores windows of frames."""

    delay = 32
    frames = 33
    keeps_steps = True
    grid: ClassVar[int] = 8
    """Frames from one keyframe that it is given to the next."""
    exact: ClassVar[bool] = False
    """Whether keys must lie at multiples of `grid`."""
    multiple: ClassVar[int] = 32
    """Sides are padded to a multiple of this."""

    def restore(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        *,
        steps: int,
        seed: int,
    ) -> Sequence[Picture]:
        """See `WindowRefiner.restore`. Errors as of `Backend.check` and `Backend.files`."""
        # Some autoencoders reflect latents at their borders, and need two.
        size, least = rendering.shape[1:3], 2 * self.multiple
        sides = [(0, max(least, side + -side % self.multiple) - side) for side in size]
        chosen = keys_on_grid(keys, self.grid, exact=self.exact)
        window = PretrainedWindow(
            np.pad(rendering, ((0, 0), *sides, (0, 0)), "edge"),
            {at: np.pad(one, (*sides, (0, 0)), "edge") for at, one in chosen.items()},
            np.pad(confidence, ((0, 0), *sides), "edge"),
            (size[0], size[1]),
        )
        # One noise for all windows where their latents are to be compared, else one each: equal
        # windows get equal noise, from wherever a stream is decoded, others do not repeat it.
        ends = rendering[:: max(1, len(rendering) - 1)].tobytes()
        shared = self.latents is not None and self.latents.is_on
        noise = seed if shared else seed << 32 | crc32(ends)
        with enough_memory(self.device):
            pipeline = self._loaded(window.frames[0, ..., 0].size)
            network, cache = getattr(pipeline, "transformer", None), self.step_cache
            with torch.no_grad(), cache.on(network, steps) if cache else nullcontext():
                return window.cropped(self._drawn(pipeline, window, steps, noise))

    @abstractmethod
    def _drawn(
        self, pipeline: Any, window: PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        """The frames of a window, RGB uint8 (n or more, H, W, 3); without gradients."""
