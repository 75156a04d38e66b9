"""What a training run asks of a task. One module each: restore, teach, window, interpolate."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.losses import Seen
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.recipe import Stage

Batch = dict[str, Tensor]
"""Samples on the device, by what they are."""


class Task(Protocol):
    """Networks that learn, samples for them, and what they make of these."""

    kind: str
    """Of the packs that it learns from: pictures or windows."""
    networks: nn.ModuleDict
    """All that learn at some stage, by name; those of the result, in this order."""
    settings: dict[str, dict[str, Any]]
    """Class and settings of each, to build it again."""
    quick: dict[str, Callable[..., Any]]
    """The same networks as training runs them: compiled, perhaps."""

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """Random samples to train on."""

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """All samples of another pack, each once, cut at random."""

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """What the networks make of a batch, with gradients."""

    def held(self, count: int) -> list[Batch]:
        """Samples that are never trained on, at most `count`, always the same."""

    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """For scores and the sheet: `truth`, `given` and each result by name, (B, 3, H, W)."""
