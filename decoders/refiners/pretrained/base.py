"""What all pretrained back ends share: loading, windows, noise, caches.

A back end gives its model's grid and multiples, and `_drawn`: a window in, its frames out. Nothing
here imports torch before a window comes.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.datasets.hub import check_hub_model, hub_folder, hub_model
from gsvc.decoders.architectures.table import ARCHITECTURES
from gsvc.decoders.refiners.base import Backend, Cost, WindowRefiner
from gsvc.decoders.refiners.pretrained.memory import Need, kind_for, need_of
from gsvc.decoders.refiners.pretrained.window import Window, seed_of

if TYPE_CHECKING:
    from torch import Tensor

MOST_STEPS = 100


class Pretrained(Backend):
    """A back end whose weights the hub has, under its own name."""

    extra = "pretrained"
    most_steps: ClassVar[int] = MOST_STEPS
    """Evaluations of the network that it can be asked for."""
    frames: ClassVar[int] = 1
    """In a window; 1: a key picture."""

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
            self._kind = kind_for(self._need(height, width), self.memory, self.device)

    def cost(self, height: int, width: int) -> Cost | None:
        """See `Backend.cost`; of a whole window."""
        if self.name not in ARCHITECTURES:
            return None
        from gsvc.decoders.architectures.work import Work

        return Work(ARCHITECTURES[self.name], height, width, self.frames).cost()

    def _need(self, height: int, width: int) -> Need:
        return need_of(self.name, height, width, self.frames, quantized=self.quantize)

    def _loaded(self, pixels: int) -> Any:
        """The pipeline, loaded when first asked for."""
        if self._pipeline is None:
            from gsvc.decoders.refiners.pretrained.loading import load_pipeline

            made_by = self.made_by or hub_model(self.name).pipeline
            held = self._kind, pixels, self.quantize
            self._pipeline = load_pipeline(self.name, made_by, self.device, *held)
        return self._pipeline

    def _prompt(self, pipeline: Any) -> "dict[str, Tensor]":
        """Arguments that stand for the empty prompt."""
        from gsvc.decoders.refiners.pretrained.loading import load_prompt

        network = getattr(pipeline, "transformer", None) or pipeline.unet
        return load_prompt(self.name, self.device, network.dtype)

    @contextmanager
    def _cached(self, pipeline: Any, steps: int) -> Iterator[None]:
        """In it a window is drawn, with the step cache that was asked for."""
        network = getattr(pipeline, "transformer", None)
        cache = self.step_cache.on(network, steps) if self.step_cache else nullcontext()
        with cache:
            yield


class PretrainedWindows(Pretrained, WindowRefiner):
    """A back end that restores windows of frames."""

    delay = 32
    frames = 33
    keeps_steps = True
    grid: ClassVar[int] = 8
    """Frames from one key picture that it is given to the next."""
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
        from gsvc.decoders.devices import enough_memory

        grid = {"multiple": self.multiple, "grid": self.grid, "exact": self.exact}
        window = Window.of(rendering, keys, confidence, **grid)  # type: ignore[arg-type]
        # One noise for all windows where their latents are to be compared, else one each.
        shared = self.latents is not None and self.latents.is_on
        noise = seed if shared else seed_of(seed, rendering)
        with enough_memory(self.device):
            pipeline = self._loaded(window.frames[0, ..., 0].size)
            with self._cached(pipeline, steps):
                return window.cropped(self._drawn(pipeline, window, steps, noise))

    @abstractmethod
    def _drawn(self, pipeline: Any, window: Window, steps: int, seed: int) -> NDArray[np.uint8]:
        """The frames of a window, RGB uint8 (n or more, H, W, 3)."""


Step = Callable[..., dict[str, Any]]
"""What diffusers calls after each step."""
