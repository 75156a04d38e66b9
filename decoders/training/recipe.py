"""Recipes: what is trained, on what, for how long and towards what. Files of settings, TOML.

And the arguments of a run on a pack, which names one.
"""

import tomllib
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from gsvc.codec.bitstream.errors import ConfigError, typed

_BASE = "base"


@typed
@dataclass(frozen=True)
class Stage:
    """A part of the planned time."""

    until: float
    """Share of the planned time at which it ends; of the last one 1."""
    weights: dict[str, float]
    """Of the loss: coarse, texture, perceptual, adversary, and the task's own terms."""
    learns: Sequence[str]
    """Networks that are trained; the others stay as they are."""
    rate: float = 1.0
    """Times the recipe's learning rate."""
    steps: dict[str, float] = field(default_factory=lambda: {"1": 1.0})
    """How often a batch is for so many steps of the sampler."""
    bolder: float = 1.0
    """Times the adversary's weight at the sampler's end, growing from 1 at its start."""
    taught: float = 0.0
    """Share of the samples that shall look like the teacher's picture, not like the truth."""
    frames: int = 1
    """Of a window that are trained on at a time."""


@typed
@dataclass(frozen=True)
class Recipe:
    """What a run does."""

    name: str
    task: str
    """What is learned: restore, teach, window or interpolate."""
    expects: str
    """What it should bring, and on what ground."""
    planned: float
    """Minutes in all, on the machine that it is made for."""
    network: dict[str, Any]
    stages: tuple[Stage, ...]
    batch: int
    """Samples of a step on a GPU."""
    side: int
    """Of the cuts, in pixels."""
    rate: float
    """Learning rate, at its highest."""
    cpu_batch: int = 4
    """Samples of a step on a CPU."""
    decay: float = 1e-4
    """Of the weights, as AdamW has it."""
    average: float = 0.999
    """How much of the averaged weights stays at each step."""
    largest_gradient: float = 0.5
    """Norm to which gradients are cut."""
    scored: int = 64
    """Held-out samples of a score; on a CPU a sixteenth of them."""

    def stage(self, seconds: float) -> Stage:
        """The one that comes after so many seconds of training."""
        share = seconds / (60 * self.planned)
        return next((stage for stage in self.stages if share < stage.until), self.stages[-1])


_Part = TypeVar("_Part", Stage, Recipe)


@cache
def recipe_texts() -> dict[str, str]:
    """The recipes that come with gsvc: text by name."""
    found = (files("gsvc.decoders.training") / "recipes").iterdir()
    texts = {Path(each.name).stem: each.read_text(encoding="utf-8") for each in found}
    return dict(sorted(texts.items()))


def read_recipe(name: str) -> Recipe:
    """A recipe that comes with gsvc, by its name, or a user's own file.

    A file names as `base` the recipe that it changes and has only what is different. Raises
    ConfigError for what cannot be one.
    """
    texts = recipe_texts()
    if name in texts:
        return _recipe(name, tomllib.loads(texts[name]))
    path = Path(name)
    if path.suffix != ".toml":
        raise ConfigError(f"no recipe is called {name!r}: take {', '.join(texts)} or a .toml file")
    try:
        own = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a recipe ({error})") from error
    base = own.pop(_BASE, None)
    if base is not None and base not in texts:
        raise ConfigError(f"{path}: base is one of {', '.join(texts)}, not {base!r}")
    return _recipe(str(path), {**(tomllib.loads(texts[base]) if base else {}), **own})


def _recipe(name: str, settings: dict[str, Any]) -> Recipe:
    """Raises ConfigError for unknown, missing or wrong fields."""
    stages = tuple(_made(Stage, name, stage) for stage in settings.get("stages", ()))
    if not stages or stages[-1].until < 1:
        raise ConfigError(f"recipe {name}: its last stage ends before its planned time")
    return _made(Recipe, name, {**settings, "stages": stages})


def _made(kind: type[_Part], name: str, settings: Mapping[str, Any]) -> _Part:
    known = {each.name: each for each in fields(kind)}
    if unknown := settings.keys() - known.keys():
        raise ConfigError(f"recipe {name}: {', '.join(sorted(unknown))} is not a setting of it")
    for each in known.values():
        is_needed = each.default is each.default_factory  # both are MISSING
        if is_needed and each.name not in settings:
            raise ConfigError(f"recipe {name}: {each.name} is missing")
    try:
        return kind(**settings)
    except ConfigError as error:
        raise ConfigError(f"recipe {name}: {error}") from error


RECIPES = f"{', '.join(recipe_texts())}, or a .toml file based on one"


def add_train_arguments(parser: ArgumentParser) -> None:
    """The arguments of a run on a pack."""
    add = parser.add_argument
    add("pack", metavar="PACK", help="the pack of gsvc train pack")
    add("run", metavar="RUN", help="the folder of the run; an existing run is continued")
    add("--recipe", required=True, metavar="NAME", help=RECIPES)
    add(
        "--minutes", type=float, default=9.0, metavar="M", help="minutes of this call (%(default)g)"
    )
    add("--resume-from", metavar="DIR", help="folder of another run to continue from")
    add("--weights", metavar="FILE", help="weights to start from, .safetensors")
    add("--teacher", metavar="FILE", help="average.safetensors of the teacher's run")
    add("--batch", type=int, metavar="N", help="samples of a step (the recipe's)")
    few = "read only about the first N samples of the pack; 0: all (%(default)s)"
    add("--samples", type=int, default=0, metavar="N", help=few)
    add("--device", metavar="NAME", help="device of torch (cuda if available)")
    quick = "use torch.compile (default: on a GPU)"
    add("--compiled", action=BooleanOptionalAction, default=None, help=quick)
    add("--seed", type=int, default=0, metavar="N", help="seed of all random choices (%(default)s)")
    add("--json", action="store_true", help="print events as JSON, one a line")
