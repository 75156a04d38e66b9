"""The restorer as a back end, the default. It takes one step, and the stream may guide it."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from gsvc.codec.bitstream import errors, frames
from gsvc.codec.bitstream.layers.guide import MIXTURES, moved
from gsvc.codec.weights.safetensors_files import check_shipped, settings_of
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.refiner import KeyRefiner, RefinerCost
from gsvc.decoders.keyframes.restorer.runtime import FILE, LAYERS, RestorerNetwork

RESTORER = "restorer"


class RestorerBackend(KeyRefiner):
    """The restorer that comes with gsvc. A stream made for these weights guides it."""

    look = "balanced"
    """Of `LOOKS`: how a viewer would have it restored."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        super().__init__(name, device)
        self.network = RestorerNetwork(device)

    @property
    def files(self) -> Sequence[Path]:
        """Its network. Errors as of `Backend.files`."""
        check_shipped(FILE)
        return [FILE]

    def load(self) -> None:
        _ = self.network.session

    def check(self, height: int, width: int, *, steps: int) -> None:
        """Raises ConfigError for more than one step."""
        if steps != 1:
            why = f"steps {steps}: the restorer takes one; for more take another back end, compact"
            raise errors.ConfigError(why)

    def refine(self, key: Keyframe, *, steps: int, seed: int) -> frames.Picture:
        self.check(*key.picture.shape[:2], steps=steps)
        guide = moved(self.usual if key.guide is None else key.guide, self.look)
        return key.picture if guide == 0 else self.network.restorations(key).mixed(MIXTURES[guide])

    @cached_property
    def usual(self) -> int:
        """Its usual mixture, an index of `MIXTURES`."""
        return int(settings_of(FILE)["usual"])

    def cost(self, height: int, width: int) -> RefinerCost:
        import torch

        from gsvc.decoders.keyframes.restorer.network import Restorer

        settings = settings_of(FILE)
        with torch.device("meta"):
            network = Restorer(settings["widths"], settings["depths"]).merged()
            whole = [side + -side % network.multiple for side in (height, width)]
            given = torch.empty(1, 3, *whole), torch.empty(1, 1, *whole), torch.empty(1, 2 + LAYERS)
        return RefinerCost(step=lambda: network(*given))
