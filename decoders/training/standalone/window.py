"""Restoring frames between key pictures: the window restorer, frame after frame."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.losses import Seen, charbonnier
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.recipe import Recipe, Stage
from gsvc.decoders.training.standalone.spans import Spans
from gsvc.decoders.training.standalone.tasks import Batch

_HELD_FRAMES = 3


class Window:
    """Learns from a pack of windows."""

    kind = "windows"

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """`pack`: on the device. Raises ConfigError for settings that no network has."""
        try:
            restorer: Any = WindowRestorer(**recipe.network)
        except TypeError as error:
            raise ConfigError(f"recipe {recipe.name}: {error}") from error
        self.networks = on_device(nn.ModuleDict({"restorer": restorer}), device)
        kept = {name: value for name, value in restorer.config.items() if not name.startswith("_")}
        self.settings = {"restorer": {"class": "WindowRestorer", "settings": kept}}
        self.quick: dict[str, Callable[..., Any]] = dict(self.networks.items())
        self._spans, self._side = Spans(pack, recipe.side), recipe.side

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return self._spans.draw(count, stage.frames, dice)

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return Spans(pack, self._side).whole(stage.frames, dice)

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """See `Task`; the term `steady` is the distance of changes from frame to frame."""
        frames, truth = _run(self.quick["restorer"], batch), batch["truth"]
        extra = {}
        if frames.shape[1] > 1:
            change, goal = (x[:, 1:] - x[:, :-1] for x in (frames, truth))
            extra["steady"] = charbonnier(change.flatten(0, 1), goal.flatten(0, 1))
        rendering = batch["rendering"].flatten(0, 1)
        return Seen(frames.flatten(0, 1), rendering, truth.flatten(0, 1), extra=extra)

    def held(self, count: int) -> list[Batch]:
        """See `Task`; a window is a sample."""
        return self._spans.held(max(1, count // _HELD_FRAMES), _HELD_FRAMES)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """See `Task`."""
        frames = _run(self.networks["restorer"], batch)
        shown = {"truth": batch["truth"], "given": batch["rendering"], "restored": frames}
        return {name: pictures.flatten(0, 1) for name, pictures in shown.items()}


def _run(restorer: Callable[..., Any], batch: Batch) -> Tensor:
    """All frames of a batch, (B, T, 3, S, S)."""
    memory, frames = None, []
    each = (batch[name].unbind(1) for name in ("rendering", "confidence", "time"))
    for rendering, confidence, time in zip(*each, strict=True):
        frame, memory = restorer(
            rendering, batch["before"], batch["after"], confidence, time, memory
        )
        frames.append(frame.float())
    return torch.stack(frames, 1)
