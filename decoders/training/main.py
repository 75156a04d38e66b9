"""The command that trains: `gsvc train run`, and the whole of the exported script."""

import json
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.decoders.training.draws import Dice
from gsvc.decoders.training.folder import RunFolder, Scorer, check_sizes
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.loop import Loop
from gsvc.decoders.training.losses import Losses
from gsvc.decoders.training.processes import ended, join, leave, rank
from gsvc.decoders.training.recipe import Recipe, add_train_arguments, read_recipe
from gsvc.decoders.training.samples import Pack, read_pack
from gsvc.decoders.training.tasks import Interpolate, Restore, Task, Teach, Window
from gsvc.decoders.training.tensors import read_tensors

_FAILED, _USAGE, _STOPPED = 1, 2, 128
_CPU_SHARE = 16
_APART = 1_000_003
"""Between the seeds of processes, and of calls."""


def main(arguments: Sequence[str]) -> int:
    """Train as the arguments say; returns the exit code. Errors are one line."""
    parser = ArgumentParser(description="Trains a network of gsvc on a pack.")
    add_train_arguments(parser)
    try:
        return ended(train(parser.parse_args(arguments)))
    except GsvcError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE if isinstance(error, ConfigError) else _FAILED


def train(options: Namespace) -> int:
    """Train as the options of `add_train_arguments` say.

    Of several processes that torchrun has started all train, and the first one does the rest.
    Returns 0, or 128 and a signal's number: then all is saved. Raises GsvcError.
    """
    start = time.monotonic()
    recipe = read_recipe(options.recipe)
    device = join(_checked(options))
    try:
        return _train(options, recipe, device, start)
    finally:
        leave()


def _train(options: Namespace, recipe: Recipe, device: torch.device, start: float) -> int:
    folder = RunFolder(Path(options.run))
    source = RunFolder(Path(options.resume_from)) if options.resume_from else folder
    kept = _kept(source, recipe, options)
    pack = _pack(Path(options.pack), options.samples).to(device)
    torch.manual_seed(options.seed)
    teacher = Path(options.teacher) if options.teacher else None
    task = task_of(pack, recipe, device, teacher)
    step = kept[1]["step"] if kept else 0
    dice = Dice(device, options.seed + step + _APART * rank())
    learner = Learner(task, Losses(pack.networks, device), recipe, dice)
    check_sizes(dict(zip(learner.names, learner.average, strict=True)), learner.largest_memory())
    if kept:
        learner.begin_with(kept[0])
        learner.remember(source.memory())
        learner.step = step
    elif options.weights:
        learner.begin_with(_weights(Path(options.weights)))
    learner.share()
    scored = recipe.scored if device.type == "cuda" else max(1, recipe.scored // _CPU_SHARE)
    scorer = Scorer(task, scored, pack.networks["alex"], device)
    batch = options.batch or (recipe.batch if device.type == "cuda" else recipe.cpu_batch)
    compiled = device.type == "cuda" if options.compiled is None else options.compiled
    folder.begin()
    about: Any = {"manifest": pack.manifest, "batch": batch, "compiled": compiled}
    loop = Loop(learner, scorer, folder, recipe, _teller(options), **about)
    loop.seconds = kept[1]["seconds"] if kept else 0.0
    return _until_stopped(loop, start + 60 * options.minutes)


def _until_stopped(loop: Loop, end: float) -> int:
    """Run the loop; a signal that ends processes lets it save first."""
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        loop.stopped = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        loop.run(time.monotonic(), end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return _STOPPED + received[0] if received else 0


def _checked(options: Namespace) -> str:
    """The device. Raises ConfigError for options that cannot be."""
    device = str(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.split(":")[0] == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda is not there: take cpu")
    if options.minutes <= 0:
        raise ConfigError(f"--minutes is {options.minutes}: take more than 0")
    if options.samples < 0:
        raise ConfigError(f"--samples is {options.samples}: take 1 or more, or 0 for all")
    if options.batch is not None and options.batch < 1:
        raise ConfigError(f"--batch is {options.batch}: take 1 or more")
    return device


def _kept(
    source: RunFolder, recipe: Recipe, options: Namespace
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Weights and state of the run to go on with; None for a new one."""
    kept, own = source.load(), Path(options.run)
    if options.resume_from:
        if kept is None:
            raise InputError(f"{source.path} holds no run to go on with")
        if source.path.resolve() != own.resolve() and RunFolder(own).load() is not None:
            raise ConfigError(f"{own} holds a run already: take another folder")
    if kept is None:
        return None
    if options.weights:
        raise ConfigError(f"{source.path} holds a run, which goes on: leave --weights out")
    before = kept[1]["recipe"]
    if (before["name"], before["network"]) != (recipe.name, recipe.network):
        raise ConfigError(
            f"{source.path} holds a run of recipe {before['name']} with another network: "
            "take another folder"
        )
    return kept


def _pack(path: Path, least: int) -> Pack:
    try:
        return read_pack(path, least)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read as a pack ({error})") from error


def task_of(pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None) -> Task:
    """A recipe's. Raises ConfigError for a task that is not known or a pack of another kind."""
    if recipe.task not in _TASKS:
        raise ConfigError(f"recipe {recipe.name}: task is one of {', '.join(_TASKS)}")
    kind = pack.manifest.get("kind")
    if kind != _TASKS[recipe.task].kind:
        raise ConfigError(
            f"recipe {recipe.name} learns from {_TASKS[recipe.task].kind}: this pack has {kind}"
        )
    if "alex" not in pack.networks:
        raise ConfigError("the pack lacks the network alex: make it anew with gsvc train pack")
    task: Task = _TASKS[recipe.task](pack, recipe, device, teacher)
    return task


_TASKS: dict[str, Any] = {
    "restore": Restore,
    "teach": Teach,
    "window": Window,
    "interpolate": Interpolate,
}


def _weights(path: Path) -> dict[str, Any]:
    try:
        return {name: value.float() for name, value in read_tensors(path)[0].items()}
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as weights ({error})") from error


def _teller(options: Namespace) -> Callable[..., None]:
    """Prints events as lines, from the first process alone."""

    def tell(event: str, **values: object) -> None:
        if rank() != 0:
            return
        if options.json:
            print(json.dumps({"type": event, **values}), flush=True)
        else:
            print(event, *(f"{name} {value}" for name, value in values.items()), flush=True)

    return tell
