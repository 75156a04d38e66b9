"""A run on shards, from the first step or from the last checkpoint."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.utils.tensorboard import SummaryWriter

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.crops import KINDS
from gsvc.decoders.training.draws import StepDice
from gsvc.decoders.training.feeds import SHARDS, Feed, Streamed
from gsvc.decoders.training.frozen import frozen_networks
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.loop import Moment, Terms, device_told, training_steps
from gsvc.decoders.training.losses import Losses
from gsvc.decoders.training.main import task_of
from gsvc.decoders.training.parallel import (
    Checkpoints,
    compiled,
    data_part,
    recompute,
    spread,
    whole_average,
)
from gsvc.decoders.training.processes import processes, rank
from gsvc.decoders.training.recipe import Recipe, Stage
from gsvc.decoders.training.samples import Pack
from gsvc.decoders.training.tensors import AVERAGE, write_tensors

_MOST_BYTES = 1 << 32
_WAY, _PLACE = "feed", "place"
"""Of what a checkpoint says of its run."""

Tell = Callable[..., None]


@dataclass(frozen=True)
class Settings:
    """Of a run on shards."""

    steps: int
    """In all."""
    stop: int
    """Where this call ends."""
    batch: int
    """Samples of a step, of all processes."""
    layout: str
    """Of `parallel.LAYOUTS`."""
    tensor: int
    """Processes of a group that has blocks in parts, with FSDP2."""
    recomputes: bool
    """Whether activations are computed again."""
    compiled: bool
    low: bool
    """Whether layers compute in bfloat16."""
    save_every: int
    """Steps."""
    seed: int
    held_out: tuple[str, ...]
    """Clips that the sources do not have, to score on."""
    teacher: Path | None


class Run:
    """One process's part of a run."""

    def __init__(
        self,
        feed: Feed,
        out: Path,
        recipe: Recipe,
        settings: Settings,
        tell: Tell,
    ) -> None:
        """Raises ConfigError where batch and processes do not go together."""
        self._feed, self._out, self._recipe = feed, out, recipe
        self._settings, self._tell = settings, tell
        self._part, self._parts = data_part(settings.layout, settings.tensor)
        if settings.batch % self._parts:
            raise ConfigError(
                f"--batch is {settings.batch}: it is dealt out to {self._parts}, take a multiple"
            )
        self._checkpoints = Checkpoints(out / "checkpoints")

    def run(self, device: torch.device) -> None:
        """Train up to the last step."""
        settings = self._settings
        self._dice = StepDice(device, settings.seed, self._part, self._parts)
        learner = self._learner(device)
        latest, place = self._checkpoints.latest(), None
        if latest is not None:
            place = self._gone_on(self._checkpoints.load(latest, learner, self._about()))
        steps = range(learner.step, settings.stop)
        packs = self._feed.packs(steps, self._dice, place)
        learner.task = Streamed(learner.task, packs, device)
        if settings.compiled:
            networks = dict(learner.task.networks.items())
            learner.task.quick |= compiled(networks, device, self._tell)
        told = {"processes": processes(), "layout": settings.layout, "from_step": learner.step}
        self._tell("begun", epoch_samples=self._feed.epoch, **told)
        self._train(learner, steps)
        self._feed.close(self._out)

    def _learner(self, device: torch.device) -> Learner:
        kind = KINDS[self._feed.about["kind"]]
        empty = {"held": torch.zeros(0), "window": torch.zeros(0, 2)}
        manifest = {"kind": self._feed.about["kind"]}
        pack = Pack(manifest, {}, empty, frozen_networks(kind.networks))
        torch.manual_seed(self._settings.seed)
        task = task_of(pack, self._recipe, device, self._settings.teacher)
        if self._settings.recomputes:
            recompute(task.networks)
        spread(task.networks, self._settings.layout, self._settings.tensor, device)
        learner = Learner(task, Losses(pack.networks, device), self._recipe, self._dice)
        learner.low = self._settings.low
        learner.share()
        return learner

    def _about(self) -> dict[str, Any]:
        """What a run must not change on its way."""
        recipe = {"recipe": self._recipe.name, "network": self._recipe.network}
        return {**recipe, "batch": self._settings.batch, "seed": self._settings.seed}

    def _gone_on(self, said: Mapping[str, Any]) -> Any:
        """The place of the feed in a checkpoint that says this. Raises ConfigError where its
        samples were made in another way."""
        if (way := said.get(_WAY, SHARDS)) != self._feed.way:
            raise ConfigError(f"the run was begun on {way}: go on so, or take another folder")
        return said.get(_PLACE)

    def _train(self, learner: Learner, steps: range) -> None:
        self._out.mkdir(parents=True, exist_ok=True)
        log = SummaryWriter(str(self._out / "tensorboard")) if rank() == 0 else None

        def begin(stage: Stage) -> None:
            if self._settings.layout != "fsdp":  # FSDP2 asks once what learns: all may
                learner.begin_stage(stage)

        def learn(stage: Stage, rate: float) -> Terms:
            self._dice.begin(learner.step)
            return learner.learn(stage, self._settings.batch // self._parts, rate)

        begun = time.monotonic()
        for terms, _ in training_steps(self._recipe, self._moments(steps), begin, learn):
            meant, now = means(terms), time.monotonic()
            if log is not None:
                self._log(log, learner.step - 1, meant, now - begun)
            begun = now
            if learner.step % self._settings.save_every == 0 or learner.step == steps.stop:
                self._save(learner)
        if log is not None:
            log.close()

    def _moments(self, steps: range) -> Iterator[Moment]:
        """By the share of the steps, as packs have it by the share of the time."""
        for step in steps:
            share = step / self._settings.steps
            yield Moment(60 * self._recipe.planned * share, share, step)

    def _log(
        self, log: SummaryWriter, step: int, terms: Mapping[str, float], seconds: float
    ) -> None:
        speed = self._settings.batch / seconds
        for name, value in {**terms, "samples a second": speed}.items():
            log.add_scalar(name, value, step)
        self._tell("step", step=step, speed=round(speed, 2), **terms)

    def _save(self, learner: Learner) -> None:
        place = {_WAY: self._feed.way, _PLACE: self._feed.place()}
        self._checkpoints.save(learner, {**self._about(), **place})
        average = whole_average(learner)
        if rank() == 0:
            halves = {name: value.half() for name, value in average.items()}
            run = {"run": json.dumps(self._facts(learner))}
            write_tensors(self._out / AVERAGE, halves, run, _MOST_BYTES)
        self._tell("saved", step=learner.step)

    def _facts(self, learner: Learner) -> dict[str, Any]:
        settings = learner.task.settings
        manifest = {name: self._feed.about[name] for name in ("kind", "samples", "settings")}
        return {
            "recipe": asdict(self._recipe),
            "networks": {name: settings[name] for name in learner.learned()},
            "pack": {**manifest, "held_out": list(self._settings.held_out)},
            "device": f"{processes()} x {device_told(learner.device)}",
            "step": learner.step,
            "seconds": 0.0,
            "scores": {},
        }


def means(terms: Mapping[str, Tensor]) -> dict[str, float]:
    """Of all processes."""
    values = torch.stack([term.detach().float() for term in terms.values()])
    if processes() > 1:
        distributed.all_reduce(values)
        values /= processes()
    return dict(zip(terms, values.tolist(), strict=True))
