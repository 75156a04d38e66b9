"""`gsvc train run`: weights of a refiner from a folder of videos and photographs."""

import json
import shutil
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.command.arguments import add_device, add_json, settings_of
from gsvc.codec.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from gsvc.decoders.training.footage import Footage
    from gsvc.decoders.training.settings import TrainSettings
    from gsvc.decoders.training.trainer import Trainer

DESCRIPTION = """Train a refiner of key pictures on a folder of videos and photographs. RUN gets the
pairs, the loss, sample sheets, the weights (for gsvc decode --backend RUN/compact.safetensors) and
a model card."""

_SCORED_STEPS = (0, 1, 2, 4)
_COMPILERS = "g++", "clang++"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train run`."""
    from gsvc.decoders.training.settings import TrainSettings

    add, defaults = parser.add_argument, TrainSettings()

    number = partial(_add_number, parser, defaults)
    add("data", metavar="DATA", help="the folder of videos, photographs and cut-outs")
    add("run", metavar="RUN", help="the folder of the run")
    sizes = "nano, or small and base, which have a prior (%(default)s)"
    add("--size", choices=("nano", "small", "base"), default=defaults.size, help=sizes)
    number("steps", "N", "of training")
    number("batch", "N", "crops a step")
    number("rate", "R", "of learning, at its highest")
    number("texture", "W", "weight of detail's strength")
    number("perceptual", "W", "weight of ST-LPIPS AlexNet")
    number("noise", "D", "deviation of the state's noise")
    unseen = "files to score on, not to train on"
    add("--held-out", nargs="+", default=[], metavar="NAME", help=unseen)
    minutes = "to prepare pairs at most (%(default)g)"
    add("--minutes", type=float, default=10.0, metavar="M", help=minutes)
    cache = "of prepared pairs at most (%(default)g)"
    add("--cache", type=float, default=2000.0, metavar="MIB", help=cache)
    add("--weights", metavar="FILE", help="begin from this .safetensors file")
    add("--resume", action="store_true", help="go on from where the run stopped")
    add_device(parser, defaults.device)
    add("--compiled", action="store_true", help="faster, by torch.compile and a C++ compiler")
    number("seed", "N", "of all that is drawn")
    add_json(parser)


def _add_number(
    parser: ArgumentParser, defaults: "TrainSettings", name: str, metavar: str, text: str
) -> None:
    default = getattr(defaults, name)
    help = f"{text} (%(default)s)"
    parser.add_argument(
        f"--{name}", type=type(default), default=default, metavar=metavar, help=help
    )


def run(options: Namespace) -> int:
    """Prepare pairs, train on them, score the weights on what was held out, write the model card.

    Of several processes that torchrun has started all train, and the first one does the rest.
    """
    from gsvc.decoders.training import workers

    try:
        return _train(options)
    finally:
        workers.leave()


def _train(options: Namespace) -> int:
    from gsvc.decoders.training import workers
    from gsvc.decoders.training.footage import Footage, find_footage
    from gsvc.decoders.training.sheet import sample_sheet
    from gsvc.decoders.training.trainer import Trainer

    data, folder = Path(options.data), Path(options.run)
    settings = _settings(options, folder)
    settings = replace(settings, device=workers.join(settings.device))
    held_out = sorted(options.held_out)
    files, clips = find_footage(data, held_out)
    footage = Footage(files)
    pairs = _prepared(options, settings, footage, folder / "pairs")
    trainer = Trainer(pairs, folder, settings)
    if options.resume:
        trainer.resume()
    elif options.weights:
        trainer.begin_from(Path(options.weights))
    for step in trainer.train():
        path = folder / "samples" / f"{step:06d}.png"
        sample_sheet(trainer.weights, pairs, path)
        _tell(options, "trained", step=step, seconds=round(trainer.seconds, 1), sheet=str(path))
    if workers.rank() == 0:
        _score(options, trainer, footage, clips)
    return 0


def _settings(options: Namespace, folder: Path) -> "TrainSettings":
    """Settings of the options; a resumed run keeps its own, except steps, device and compiled."""
    import torch

    from gsvc.decoders.training.settings import TrainSettings

    if options.device.split(":")[0] == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda is not there; take cpu")
    if options.compiled and not any(map(shutil.which, _COMPILERS)):
        raise MissingDependencyError("no C++ compiler: install g++, or leave --compiled out")
    path = folder / "settings.json"
    if options.resume and path.exists():
        kept = json.loads(path.read_text())
        changed = {name: getattr(options, name) for name in ("steps", "device", "compiled")}
        return TrainSettings(**{**kept, **changed})
    if (folder / "checkpoint.pt").exists():
        raise ConfigError(f"{folder} holds a run already: --resume it, or take another folder")
    return settings_of(TrainSettings, options)


def _prepared(
    options: Namespace, settings: "TrainSettings", footage: "Footage", pairs: Path
) -> Path:
    """The folder of pairs, which the first process fills where it is empty."""
    from gsvc.decoders.refiners.compact.network import SIZES
    from gsvc.decoders.refiners.priors.drawing import load_prior
    from gsvc.decoders.training import workers
    from gsvc.decoders.training.pairs import prepare

    if workers.rank() == 0 and not any(pairs.glob("*.npz")):
        limits = {"minutes": options.minutes, "mebibytes": options.cache}
        name = str(SIZES[settings.size].get("prior", ""))
        prior = load_prior(name, settings.device) if name else None
        count = prepare(footage, pairs, seed=settings.seed, prior=prior, **limits)
        _tell(options, "prepared", crops=count)
    workers.wait()
    return pairs


def _score(options: Namespace, trainer: "Trainer", footage: "Footage", clips: list[Path]) -> None:
    from gsvc.decoders.training.assess import assess
    from gsvc.decoders.training.card import model_card

    quality = assess(clips, trainer.weights, _SCORED_STEPS)
    card = Path(options.run) / "MODEL_CARD.md"
    card.write_text(model_card(trainer, footage, clips, quality))
    _tell(options, "done", weights=str(trainer.weights), card=str(card))


def _tell(options: Namespace, event: str, **values: object) -> None:
    if options.json:
        print(json.dumps({"event": event, **values}), flush=True)
    else:
        print(event, *(f"{name} {value}" for name, value in values.items()), flush=True)
