"""The window restorer as a back end, of weights that `gsvc train` made."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import errors, frames
from gsvc.codec.weights import safetensors_files as weight_files
from gsvc.decoders.keyframes.refiner import RefinerCost, WindowRefiner, enough_memory

if TYPE_CHECKING:
    from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer

WEIGHTS = weight_files.shipped(Path(__file__).parent / "weights", "windowed")
"""Name -> weights, see `gsvc.codec.weights.model_files`."""


class WindowedBackend(WindowRefiner):
    """The window restorer, of a name in `WEIGHTS` or of a `.safetensors` file of `gsvc train`.

    It draws in one step; more are refused.
    """

    extra = "refine"
    delay = 32
    """Coded pictures are some 25 frames apart at level 1, and both around a frame are wanted."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        super().__init__(name, device)
        self._weights = WEIGHTS.get(name, Path(name))

    @property
    def files(self) -> Sequence[Path]:
        """Its weights. Errors as of `Backend.files`."""
        if self.name in WEIGHTS:
            weight_files.check_shipped(self._weights)
        else:
            weight_files.check_there(self._weights)
        return [self._weights]

    @cached_property
    def network(self) -> "WindowRestorer":
        """The network with its weights, loaded when first asked for."""
        from gsvc.decoders.keyframes.devices import placed
        from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer

        with enough_memory(self.device):
            return placed(weight_files.load_network(WindowRestorer, self._weights), self.device)

    def load(self) -> None:
        _ = self.network

    def restore(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, frames.Picture],
        confidence: NDArray[np.float32],
        *,
        steps: int,
        seed: int,
    ) -> Sequence[frames.Picture]:
        """See `WindowRefiner.restore`. Raises ConfigError for more than one step."""
        from gsvc.decoders.keyframes.windowed.window_frames import restored_frames

        if steps != 1:
            raise errors.ConfigError(f"{self.name} draws in one step: take steps=1")
        with enough_memory(self.device):
            return restored_frames(self.network, rendering, sorted(keys), confidence)

    def cost(self, height: int, width: int) -> RefinerCost:
        """Of a whole window. See `Backend.cost`."""
        from gsvc.decoders.keyframes.windowed.window_frames import window_cost

        return window_cost(weight_files.settings_of(self._weights), self.delay + 1, height, width)
