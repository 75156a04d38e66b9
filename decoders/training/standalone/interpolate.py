"""Motion between decoded pictures: RIFE's network, from its published weights."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.interpolation.ifnet import IFNET_MULTIPLE, IFNet, moved_by
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.losses import Seen
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.recipe import Recipe, Stage
from gsvc.decoders.training.standalone.spans import Spans
from gsvc.decoders.training.standalone.tasks import Batch

_PUBLISHED = "rife"
_SOFT, _STEEP = 6.0, 20.0
"""Steepness of the side around its middle, in training and where it is shown: a steep one decides,
as `gsvc.decoders.interpolation.rife` does, but has no gradient where it decided wrongly."""


class Interpolate:
    """Learns from a pack of windows: from both key pictures to a frame between them."""

    kind = "windows"

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """`pack`: on the device. Raises ConfigError where it lacks the published weights."""
        if _PUBLISHED not in pack.networks:
            raise ConfigError("the pack has no network rife: gsvc train pack makes one with it")
        if recipe.side % IFNET_MULTIPLE:
            raise ConfigError(f"recipe {recipe.name}: side must be a multiple of {IFNET_MULTIPLE}")
        network = IFNet(**recipe.network)
        network.load_state_dict(pack.networks[_PUBLISHED])
        self.networks = on_device(nn.ModuleDict({"ifnet": network}), device)
        self.settings = {"ifnet": {"class": "IFNet", "settings": dict(recipe.network)}}
        self.quick: dict[str, Callable[..., Any]] = dict(self.networks.items())
        self._spans, self._side = Spans(pack, recipe.side), recipe.side

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return self._spans.draw(count, 1, dice)

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return Spans(pack, self._side).whole(1, dice)

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """See `Task`."""
        frame = _between(self.quick["ifnet"], batch, _SOFT)
        return Seen(frame, batch["rendering"][:, 0], batch["truth"][:, 0])

    def held(self, count: int) -> list[Batch]:
        """See `Task`."""
        return self._spans.held(count, 1)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """See `Task`; `given` is the rendering with the decoder's own motion."""
        frame = _between(self.networks["ifnet"], batch, _STEEP)
        return {"truth": batch["truth"][:, 0], "given": batch["rendering"][:, 0], "drawn": frame}


def _between(network: Callable[..., Any], batch: Batch, steepness: float) -> Tensor:
    """The frames, looked up in the key pictures bicubically, as the decoder does."""
    before, after = batch["before"], batch["after"]
    motion, mask = network(before / 2 + 0.5, after / 2 + 0.5, batch["time"][:, 0])
    motion, mask = motion.float(), mask.float()
    side = (steepness * (mask.sigmoid() - 0.5)).sigmoid()
    left = moved_by(before, motion[:, :2], "bicubic")
    right = moved_by(after, motion[:, 2:], "bicubic")
    frames: Tensor = side * left + (1 - side) * right
    return frames
