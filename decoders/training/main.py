"""The command that trains on a pack: `gsvc train run`, and the whole of the exported trainer."""

import json
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.decoders.training.draws import Rng
from gsvc.decoders.training.loop import Checkpoints, Minutes, Run, Scorer, make_learner
from gsvc.decoders.training.packs import read_pack
from gsvc.decoders.training.parallel import ended, join, leave, processes, rank
from gsvc.decoders.training.recipe import Recipe, add_train_arguments, read_recipe
from gsvc.decoders.training.tensors import read_tensors

_FAILED, _USAGE, _STOPPED = 1, 2, 128
_CPU_SHARE = 16
_Given = TypeVar("_Given")


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
    clock = Minutes(start, start + 60 * options.minutes)
    recipe = read_recipe(options.recipe)
    device = join(_checked(options))
    try:
        return _until_stopped(_run(options, recipe, device, clock), clock)
    finally:
        leave()


def _run(options: Namespace, recipe: Recipe, device: torch.device, clock: Minutes) -> Run:
    source = _source(options)
    pack = _read("a pack", options.pack, partial(read_pack, least=options.samples)).to(device)
    torch.manual_seed(options.seed)
    on_gpu = device.type == "cuda"
    rng = Rng(device, options.seed, rank(), processes())
    learner = make_learner(pack, recipe, rng, Path(options.teacher) if options.teacher else None)
    scored = recipe.scored if on_gpu else max(1, recipe.scored // _CPU_SHARE)
    run = Run(
        learner,
        recipe,
        Path(options.run),
        clock,
        partial(_tell, options),
        batch=options.batch or (recipe.batch if on_gpu else recipe.cpu_batch),
        about={},
        pack=pack.manifest,
        scorer=Scorer(learner.task, scored, pack.networks["alex"], device),
        log_every=1.0,
        compiled=on_gpu if options.compiled is None else options.compiled,
    )
    run.go_on(source)
    if options.weights:
        weights, _ = _read("weights", options.weights, read_tensors)
        learner.begin_with({name: value.float() for name, value in weights.items()})
    learner.share()
    return run


def _until_stopped(run: Run, clock: Minutes) -> int:
    """Train; a signal that ends processes lets it save first."""
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        clock.stopped = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        run.train()
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


def _source(options: Namespace) -> Path:
    """The folder of the run to go on with. Raises where options do not go with what it holds."""
    own = Path(options.run)
    source = Path(options.resume_from) if options.resume_from else own
    if options.resume_from and not _holds_run(source):
        raise InputError(f"{source} holds no run to go on with")
    if source.resolve() != own.resolve() and _holds_run(own):
        raise ConfigError(f"{own} holds a run already: take another folder")
    if options.weights and _holds_run(source):
        raise ConfigError(f"{source} holds a run, which goes on: leave --weights out")
    return source


def _holds_run(folder: Path) -> bool:
    return Checkpoints(folder / "checkpoints").latest() is not None


def _read(what: str, path: str, read: Callable[[Path], _Given]) -> _Given:
    try:
        return read(Path(path))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read as {what} ({error})") from error


def _tell(options: Namespace, event: str, **values: Any) -> None:
    if rank() == 0 and options.json:
        print(json.dumps({"type": event, **values}), flush=True)
    elif rank() == 0:
        shown = {n: f"{v:.4g}" if isinstance(v, float) else v for n, v in values.items()}
        print(event, *(f"{name} {value}" for name, value in shown.items()), flush=True)
