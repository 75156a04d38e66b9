"""`gsvc train`: from a folder of videos and photographs to weights, in one folder that a stopped run goes on from."""

import json
import shutil
from argparse import Namespace
from dataclasses import fields, replace
from pathlib import Path

import torch

from gsvc.codec.errors import ConfigError, MissingDependencyError
from gsvc.decoders.refiners.compact.network import SIZES
from gsvc.decoders.refiners.priors.drawing import load_prior
from gsvc.decoders.training import workers
from gsvc.decoders.training.assess import assess, means
from gsvc.decoders.training.card import model_card
from gsvc.decoders.training.footage import Footage
from gsvc.decoders.training.pairs import prepare
from gsvc.decoders.training.sheet import sample_sheet
from gsvc.decoders.training.trainer import Trainer, TrainSettings

_SCORED_STEPS = (0, 1, 2, 4)
_COMPILERS = "g++", "clang++"


def train(options: Namespace) -> int:
    """Prepare pairs, train on them, score the weights on what was held out, and write the model card.

    Of several processes that torchrun has started all train, and the first one does the rest.
    """
    try:
        return _train(options)
    finally:
        workers.leave()


def _train(options: Namespace) -> int:
    data, run = Path(options.data), Path(options.run)
    settings = _settings(options, run)
    settings = replace(settings, device=workers.join(settings.device))
    held_out = sorted(options.held_out)
    footage = Footage(data, held_out)
    clips = [path for path in sorted(data.rglob("*")) if path.name in held_out]
    if len(clips) != len(held_out):
        raise ConfigError(f"held out, but not below {data}: {' '.join(held_out)}")
    pairs = run / "pairs"
    if workers.rank() == 0 and not any(pairs.glob("*.npz")):
        limits = {"minutes": options.minutes, "mebibytes": options.cache}
        name = str(SIZES[settings.size].get("prior", ""))
        prior = load_prior(name, settings.device) if name else None
        count = prepare(footage, pairs, seed=settings.seed, prior=prior, **limits)
        _tell(options, "prepared", crops=count)
    workers.wait()
    trainer = Trainer(pairs, run, settings)
    if options.resume:
        trainer.resume()
    elif options.weights:
        trainer.begin_from(Path(options.weights))
    for step in trainer.train():
        path = run / "samples" / f"{step:06d}.png"
        sample_sheet(trainer.weights, pairs, path)
        _tell(options, "trained", step=step, seconds=round(trainer.seconds, 1), sheet=str(path))
    if workers.rank() > 0:
        return 0
    scores = assess(clips, trainer.weights, _SCORED_STEPS)
    quality = dict(zip(_SCORED_STEPS, means(scores), strict=True)) if scores else {}
    card = model_card(trainer, footage, clips, quality)
    (run / "docs/model_card.md").write_text(card)
    _tell(options, "done", weights=str(trainer.weights), card=str(run / "docs/model_card.md"))
    return 0


def _settings(options: Namespace, run: Path) -> TrainSettings:
    """Those of the options; a run that is resumed keeps its own, save for the number of steps and how it runs."""
    if options.device.split(":")[0] == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda is not there; take cpu")
    if options.compiled and not any(map(shutil.which, _COMPILERS)):
        raise MissingDependencyError("no C++ compiler: install g++, or leave --compiled out")
    path = run / "settings.json"
    if options.resume and path.exists():
        kept = json.loads(path.read_text())
        changed = {name: getattr(options, name) for name in ("steps", "device", "compiled")}
        return TrainSettings(**{**kept, **changed})
    if (run / "checkpoint.pt").exists():
        raise ConfigError(f"{run} holds a run already: --resume it, or take another folder")
    return TrainSettings(**{f.name: getattr(options, f.name) for f in fields(TrainSettings)})


def _tell(options: Namespace, event: str, **values: object) -> None:
    if options.json:
        print(json.dumps({"event": event, **values}), flush=True)
    else:
        print(event, *(f"{name} {value}" for name, value in values.items()), flush=True)
