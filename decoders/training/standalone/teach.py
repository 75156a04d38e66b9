"""Teaching a small refiner what a larger one, with a prior, makes of pictures.

The teacher's picture is one that a network can reach from what is decoded; the truth is not.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.compact.network import CompactRefiner
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.folder import read_average
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.recipe import Recipe, Stage
from gsvc.decoders.training.standalone.restore import Restore, given_to, prior_of, restored
from gsvc.decoders.training.standalone.tasks import Batch


class Teach(Restore):
    """Learns from a pack of pictures and from a result of `restore`."""

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """Raises ConfigError without a teacher, InputError for a file that holds none."""
        super().__init__(pack, recipe, device, teacher)
        if teacher is None:
            raise ConfigError(
                f"recipe {recipe.name} needs --teacher FILE: average.safetensors of a run of medium"
            )
        weights, run = read_average(teacher)
        self._teachers = {
            name: on_device(network.requires_grad_(False).eval(), device)
            for name, network in _networks(teacher, weights, run, pack).items()
        }

    def _goal(self, batch: Batch, stage: Stage, dice: Dice) -> Tensor:
        """The teacher's picture, for as many samples as the stage says; the truth for others."""
        truth = batch["truth"]
        with torch.no_grad():
            given = given_to(batch, self._teachers, with_gradient=False)
            taught = restored(self._teachers["refiner"], given, batch["scalars"], 1)
        chosen = dice.is_true(len(truth), stage.taught).view(-1, 1, 1, 1)
        return torch.where(chosen, taught, truth)


def _networks(path: Path, weights: dict[str, Tensor], run: dict[str, Any], pack: Pack) -> Any:
    """The teacher's networks with their weights."""
    try:
        refiner: Any = CompactRefiner(**run["networks"]["refiner"]["settings"])
        refiner.load_state_dict(_of(weights, "refiner"))
        networks = {"refiner": refiner}
        if refiner.config.prior:
            networks["prior"] = prior_of(pack, refiner.config.prior)
            if "prior" in run["networks"]:
                networks["prior"].load_state_dict(_of(weights, "prior"))
    except (KeyError, TypeError, RuntimeError) as error:
        raise ConfigError(f"{path} is not the result of a restorer's run") from error
    return networks


def _of(weights: dict[str, Tensor], network: str) -> dict[str, Tensor]:
    start = f"{network}."
    return {
        name.removeprefix(start): value for name, value in weights.items() if name.startswith(start)
    }
