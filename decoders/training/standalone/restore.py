"""Restoring decoded pictures: the compact refiner, with its prior if it has one, and its teacher.

First the step from the picture to its source, sigma 1. Then the steps after it, on the states that
the sampler visits: there the network sees what it drew itself, and is asked to be bolder, so that
more steps draw more.

`Teach` teaches a small refiner what a larger one, with a prior, makes of pictures. The teacher's
picture is one that a network can reach from what is decoded; the truth is not.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.compact.network import SIZES, CompactRefiner, noise_levels, walk
from gsvc.decoders.keyframes.priors.prior_networks import RRDBNet, SRVGGNetCompact, drawn_at
from gsvc.decoders.training.standalone.draws import (
    Cuts,
    Dice,
    colours_of,
    drawn_cuts,
    moved,
    whole_cuts,
)
from gsvc.decoders.training.standalone.folder import read_average
from gsvc.decoders.training.standalone.losses import Seen
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.recipe import Recipe, Stage
from gsvc.decoders.training.standalone.samples import GAIN_UNIT
from gsvc.decoders.training.standalone.tasks import Batch
from gsvc.decoders.training.standalone.tensors import on_device

_MOVED_SHARE = 0.5
_SHOWN_STEPS = (1, 2, 4)
_HELD_AT_ONCE = 16
_DRAWN_PRIOR, _DRAWINGS = "animevideov3", 2
"""The prior that draws when samples are made, and what it draws of a picture."""
_PRIORS = {"animevideov3": SRVGGNetCompact, "x4plus": RRDBNet}


class Restore:
    """Learns from a pack of pictures."""

    kind = "pictures"

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """`pack`: on the device. Raises ConfigError where it lacks the prior's weights."""
        refiner, settings = refiner_of(recipe)
        self.networks = nn.ModuleDict({"refiner": refiner})
        self.settings = {"refiner": settings}
        if refiner.config.prior:
            self.networks["prior"] = prior_of(pack, refiner.config.prior)
            kind = type(self.networks["prior"]).__name__
            self.settings["prior"] = {"class": kind, "settings": {}}
        on_device(self.networks, device)
        self._noise, self._prior = float(refiner.config.noise), refiner.config.prior
        self._stages = recipe.stages
        self.quick: dict[str, Callable[..., Any]] = dict(self.networks.items())
        self._pack, self._side = pack, recipe.side
        held = pack.arrays["held"].bool()
        self._trained, self._held = (~held).nonzero()[:, 0], held.nonzero()[:, 0]

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        numbers = self._trained[dice.below(len(self._trained), count)]
        return self._cut(self._pack, numbers, dice)

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        stack = pack.stacks["truth"]
        return self._cut(pack, torch.arange(len(stack), device=stack.device), dice)

    def _cut(self, pack: Pack, numbers: Tensor, dice: Dice) -> Batch:
        stacks = pack.stacks
        cuts = drawn_cuts(dice, len(numbers), stacks["truth"].shape[-1], self._side)
        return {
            **self._drawn_for(pack, numbers, cuts),
            "truth": cuts.colours(stacks["truth"], numbers),
            "picture": cuts.colours(stacks["given"], numbers),
            "gain": cuts.of(stacks["gain"], numbers).float() / GAIN_UNIT,
            "scalars": pack.arrays["scalars"][numbers].float(),
        }

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """See `Task`."""
        picture, goal = batch["picture"], self._goal(batch, stage, dice)
        given = given_to(
            batch,
            self.quick,
            with_gradient="prior" in stage.learns,
            drawn=batch.get("drawn") if self._is_as_published(stage) else None,
        )
        noise = self._noise * dice.normal(*picture.shape)
        steps = int(dice.one_of(stage.steps))
        done = dice.whole(1, steps) if steps > 1 else 0
        sigmas = noise_levels(steps)

        def denoise(state: Tensor, sigma: Tensor) -> Tensor:
            made: Tensor = self.quick["refiner"](state, sigma, given, batch["scalars"])
            return made.float()

        state = picture + noise
        if done:
            with torch.no_grad():
                state = walk(denoise, state, sigmas[:done], sigmas[done])
        estimate = denoise(state, picture.new_full((len(picture),), sigmas[done]))
        boldness = 1 + (stage.bolder - 1) * (1 - sigmas[done])
        return Seen(*moved(estimate, picture, goal, dice, _MOVED_SHARE), boldness)

    def held(self, count: int) -> list[Batch]:
        """See `Task`."""
        return held_pictures(self._pack, self._held, count)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """See `Task`: the results are named by their steps."""
        networks: Mapping[str, Any] = dict(self.networks.items())
        given = given_to(batch, networks, with_gradient=False)
        shown = {"truth": batch["truth"], "given": batch["picture"]}
        for steps in _SHOWN_STEPS:
            shown[str(steps)] = restored(networks["refiner"], given, batch["scalars"], steps)
        return shown

    def _drawn_for(self, pack: Pack, numbers: Tensor, cuts: Cuts) -> Batch:
        """What the prior draws, where whoever made the pack had it draw already."""
        if "drawn" not in pack.stacks or self._prior != _DRAWN_PRIOR:
            return {}
        each = torch.arange(_DRAWINGS, device=numbers.device)
        drawn = cuts.colours(pack.stacks["drawn"], _DRAWINGS * numbers[:, None] + each)
        return {"drawn": drawn.view(len(numbers), -1, *drawn.shape[2:])}

    def _is_as_published(self, stage: Stage) -> bool:
        """Whether the prior has learned nothing, and does not now."""
        upto = self._stages.index(stage) + 1 if stage in self._stages else len(self._stages)
        return not any("prior" in each.learns for each in self._stages[:upto])

    def _goal(self, batch: Batch, stage: Stage, dice: Dice) -> Tensor:
        """What samples shall look like."""
        return batch["truth"]


def given_to(
    batch: Batch,
    networks: Mapping[str, Callable[..., Any]],
    with_gradient: bool,
    drawn: Tensor | None = None,
) -> Tensor:
    """A refiner's input: picture, gain and what the prior draws, with gradients or not.

    `drawn`: what it drew before, (B, 6, H, W); None to have it draw.
    """
    given = torch.cat([batch["picture"], batch["gain"]], 1)
    if "prior" not in networks:
        return given
    if drawn is not None:
        return torch.cat([given, drawn], 1)
    with torch.set_grad_enabled(with_gradient):
        prior: Any = networks["prior"]
        drawn = drawn_at(prior.shrunk, prior, batch["picture"])
    return torch.cat([given, drawn.float()], 1)


def refiner_of(recipe: Recipe) -> tuple[Any, dict[str, Any]]:
    """The network of a recipe, and its class and settings."""
    try:
        settings = {**SIZES[recipe.network["size"]], "noise": recipe.network.get("noise", 0.003)}
        refiner: Any = CompactRefiner(**settings)
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"recipe {recipe.name}: no refiner has these settings ({error})"
        ) from error
    kept = {name: value for name, value in refiner.config.items() if not name.startswith("_")}
    return refiner, {"class": "CompactRefiner", "settings": kept}


def prior_of(pack: Pack, name: str) -> nn.Module:
    """The prior, with its weights out of a pack. Raises ConfigError where they are not there."""
    if name not in _PRIORS or name not in pack.networks:
        raise ConfigError(f"the pack has no prior {name}: gsvc train pack makes one with it")
    prior: nn.Module = _PRIORS[name]()
    prior.load_state_dict(pack.networks[name])
    return prior


def held_pictures(pack: Pack, numbers: Tensor, count: int) -> list[Batch]:
    """Whole crops of a pack, spread evenly over `numbers`."""
    chosen = numbers[:: max(1, len(numbers) // count)][:count]
    batches = []
    for part in torch.split(chosen, _HELD_AT_ONCE) if len(chosen) else ():
        cuts = whole_cuts(len(part), pack.stacks["truth"].shape[-1], part.device)
        batches.append(
            {
                "truth": colours_of(cuts.of(pack.stacks["truth"], part)),
                "picture": colours_of(cuts.of(pack.stacks["given"], part)),
                "gain": cuts.of(pack.stacks["gain"], part).float() / GAIN_UNIT,
                "scalars": pack.arrays["scalars"][part].float(),
            }
        )
    return batches


def restored(refiner: Any, given: Tensor, scalars: Tensor, steps: int) -> Tensor:
    """What the sampler shows after `steps`, without noise in the state."""

    def denoise(state: Tensor, sigma: Tensor) -> Tensor:
        made: Tensor = refiner(state, sigma, given, scalars)
        return made.float()

    return walk(denoise, given[:, :3], noise_levels(steps), 0.0)


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
