"""The loop of training: on a pack until the time is over, on shards until the last step.

A run keeps in its folder checkpoints to go on from, and scores with a sheet of pictures. Each
process writes its part of a checkpoint, and any number of processes reads them.
"""

import csv
import json
import math
import os
import platform
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils.flop_counter import FlopCounterMode

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.media.output import atomic_output
from gsvc.decoders.training import draws, packs, parallel, tasks
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.losses import AlexDistance, Losses, luma_of
from gsvc.decoders.training.recipe import Recipe, Stage
from gsvc.decoders.training.tensors import AVERAGE, RUN, on_device, write_tensors

if TYPE_CHECKING:
    from gsvc.decoders.training.feeds import ShardFeed, SourceFeed

_KEPT = 2


class Checkpoints:
    """Those of a run, `step-NNNNNNN` each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest(self) -> Path | None:
        """The newest one that is whole."""
        found = sorted(self._folder.glob("step-*/.metadata"))
        return found[-1].parent if found else None

    def save(self, learner: Learner, about: Mapping[str, Any]) -> None:
        """Write one, and remove old ones. All processes must ask.

        `about`: of the first one, which alone knows where its producers are.
        """
        path = self._folder / f"step-{learner.step:07d}"
        said = [json.dumps(about)]
        if parallel.processes() > 1:
            distributed.broadcast_object_list(said, 0)
        with _alone():
            save({**_state(learner), RUN: said[0]}, checkpoint_id=path)
        if parallel.rank() == 0:
            for old in sorted(self._folder.glob("step-*"))[:-_KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        if parallel.processes() > 1:
            distributed.barrier()

    def load(self, path: Path, learner: Learner, about: Mapping[str, Any]) -> dict[str, Any]:
        """Put the state of `path` into a learner; `about` is what it must be of.

        Returns all that was said of it when it was saved. Raises ConfigError where it is not.
        """
        text = {RUN: ""}
        with _alone():
            load(text, checkpoint_id=path)
        told: dict[str, Any] = json.loads(text[RUN])
        own = json.loads(json.dumps(about))
        if other := [name for name in own if told.get(name) != own[name]]:
            raise ConfigError(f"{path} is of another {', '.join(other)}: take another folder")
        networks = learner.task.networks
        with _alone(), _only_learned(networks, path):
            state = _state(learner)
            load(state, checkpoint_id=path)
            state_dict.set_optimizer_state_dict(
                networks, learner.optimizer, optim_state_dict=state["optimizer"]
            )
        learner.step = learner.steps_since_start = int(state["step"])
        if learner.adversary is not None:
            critic, optimizer = learner.adversary.critic, learner.adversary.optimizer
            state_dict.set_optimizer_state_dict(
                critic, optimizer, optim_state_dict=state["critic optimizer"]
            )
            learner.adversary.steps = int(state["critic steps"])
        return told


@contextmanager
def _alone() -> Iterator[None]:
    """Without the warning that there is one process only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        yield


@contextmanager
def _only_learned(networks: nn.ModuleDict, path: Path) -> Iterator[None]:
    """In it, only those parameters seem to learn of which the checkpoint's optimiser knows. A prior
    that learns in the last stage has no moments before it."""
    known = FileSystemReader(path).read_metadata().state_dict_metadata
    before = {each: each.requires_grad for each in networks.parameters()}
    for name, each in networks.named_parameters():
        each.requires_grad_(f"optimizer.state.{name}.step" in known)
    try:
        yield
    finally:
        for each, learns in before.items():
            each.requires_grad_(learns)


def _state(learner: Learner) -> dict[str, Any]:
    """All that training goes on from; tensors are those of the learner."""
    networks, adversary = learner.task.networks, learner.adversary
    state = {
        "networks": dict(networks.named_parameters()),
        "average": dict(zip(learner.names, learner.average, strict=True)),
        "optimizer": state_dict.get_optimizer_state_dict(networks, learner.optimizer),
        "step": torch.tensor(learner.step),
    }
    if adversary is not None:
        state["critic"] = dict(adversary.critic.named_parameters())
        state["critic optimizer"] = state_dict.get_optimizer_state_dict(
            adversary.critic, adversary.optimizer
        )
        state["critic steps"] = torch.tensor(adversary.steps)
    return state


_ROWS = 8


class Scorer:
    """Scores a task's networks as they are, always on the same samples."""

    def __init__(
        self, task: tasks.Task, count: int, alex: dict[str, Tensor], device: torch.device
    ) -> None:
        """Raises ConfigError where nothing was held out."""
        self._task, self._batches = task, task.held(count)
        if not self._batches:
            raise ConfigError("the pack holds nothing out to score on: make it with --held-out")
        self._alex = on_device(AlexDistance(alex), device)

    def score(self) -> dict[str, dict[str, float]]:
        """Mean ST-LPIPS AlexNet and PSNR of luma in dB, by result; `given`: before."""
        sums: dict[str, Tensor] = {}
        count = 0
        for batch in self._batches:
            shown = dict(self._task.shown(batch))
            truth = shown.pop("truth")
            count += len(truth)
            for name, picture in shown.items():
                picture = picture.float().clamp(-1, 1)
                error = luma_of(picture - truth).div(2).square().mean((1, 2, 3)).clamp(min=1e-10)
                pair = torch.stack([self._alex(picture, truth), -10 * error.log10()]).double()
                sums[name] = sums.get(name, 0) + pair.sum(1)
        means = {name: (total / count).tolist() for name, total in sums.items()}
        return {name: {"alex": mean[0], "psnr": mean[1]} for name, mean in means.items()}

    def sheet(self, path: Path) -> None:
        """A PNG with a row for each of a few samples: truth, given, results."""
        joined = {name: torch.cat([b[name] for b in self._batches]) for name in self._batches[0]}
        step = max(1, len(joined["truth"]) // _ROWS)  # samples that lie far apart
        shown = self._task.shown({name: x[::step][:_ROWS] for name, x in joined.items()}).values()
        rows = [torch.cat([x.float() for x in row], 2) for row in zip(*shown, strict=True)][:_ROWS]
        levels = torch.cat(rows, 1).add(1).mul(127.5).round().clamp(0, 255).byte()
        with atomic_output(path, overwrite=True) as part:
            Image.fromarray(np.ascontiguousarray(levels.permute(1, 2, 0).cpu())).save(part, "PNG")


Tell = Callable[..., None]
"""(event, **values): says what happened."""
_WARM_UP = 100
_LEAST_RATE = 0.02
_MOST_BYTES = 1 << 32
_COUNTED = 2  # samples of the batch whose operations are counted


class Moment(NamedTuple):
    """Where a run is before a step."""

    seconds: float
    """Of the recipe's planned time: it decides the stage."""
    share: float
    """Of what this call trains, 0 to 1: the learning rate falls with it as a cosine."""
    steps: int
    """Since the warm-up began."""


class Steps:
    """Up to a step, saving every so many."""

    may_score = True

    def __init__(self, recipe: Recipe, steps: int, stop: int, save_every: int) -> None:
        """`steps`: in all; `stop`: where this call ends."""
        self._planned, self._steps, self._stop = 60 * recipe.planned, steps, stop
        self._every = save_every
        self.seconds = 0.0
        """Of training so far, of earlier calls too."""
        self.must_save = False

    def moments(self, learner: Learner) -> Iterator[Moment]:
        """One for each step that is to be taken, the same in all processes.

        The share of the steps counts as packs have the share of the time.
        """
        begun, before = time.monotonic(), self.seconds
        for step in range(learner.step, self._stop):
            self.must_save = (step + 1) % self._every == 0
            yield Moment(self._planned * step / self._steps, step / self._steps, step)
            self.seconds = before + time.monotonic() - begun

    def saved(self, begun: float, scored: float) -> None:
        """A save that began and had its scores at these times, by time.monotonic(), is done."""


_SAVE_EVERY = 120.0
_FIRST_SAVE = 10.0, 0.1
"""Seconds after the start, or the share of the time given, whichever is sooner."""
_SAVE_SHARE = 8  # times its own duration that a save waits for the next one, at least
_LEAST_SECONDS = 1e-3


class Minutes:
    """From one time to another, by time.monotonic(), at least a step; the first process's count."""

    def __init__(self, start: float, end: float) -> None:
        self._start, self._end = start, max(end, start + _LEAST_SECONDS)
        seconds, share = _FIRST_SAVE
        self._next = start + min(seconds, share * (self._end - start))
        self._last = self._end
        self._is_slow, self.must_save, self.seconds = False, False, 0.0
        self.stopped = False
        """Set from outside: finish the step, save and end."""

    @property
    def may_score(self) -> bool:
        """As of `Steps`: who stops it may not wait for scores."""
        return not (self._is_slow or self.stopped)

    def moments(self, learner: Learner) -> Iterator[Moment]:
        before, first = self.seconds, learner.step
        while True:
            now = time.monotonic()
            is_over = self.stopped or (now >= self._last and learner.step > first)
            own = now, float(is_over), float(now >= self._next)
            now, over, due = parallel.of_the_first(own, learner.device)
            if over:
                return
            self.seconds, self.must_save = before + now - self._start, bool(due)
            share = (now - self._start) / (self._end - self._start)
            yield Moment(self.seconds, share, learner.steps_since_start)

    def saved(self, begun: float, scored: float) -> None:
        """As of `Steps`: the next save waits, and the last one begins early enough."""
        now = time.monotonic()
        took = now - begun
        self._next = now + max(_SAVE_EVERY, _SAVE_SHARE * took)
        if _SAVE_SHARE * took > self._end - self._start:
            self._is_slow, took = True, now - scored
        self._last = self._end - 1.5 * took - 1


def make_learner(
    pack: packs.Pack,
    recipe: Recipe,
    rng: draws.Rng,
    teacher: Path | None = None,
    *,
    layout: str = "one",
    tensor: int = 1,
    recomputes: bool = False,
    low: bool | None = None,
) -> Learner:
    """A recipe's networks, spread over processes as `spread` has it, ready to learn.

    `pack`: on the device; of it come frozen networks, and samples where no feed gives them. `low`:
    as of `Learner`. Raises ConfigError where they do not go together.
    """
    task = tasks.task_of(pack, recipe, rng.device, teacher)
    if recomputes:
        parallel.recompute(task.networks)
    parallel.spread(task.networks, layout, tensor, rng.device)
    return Learner(task, Losses(pack.networks, rng.device), recipe, rng, low=low)


@dataclass
class Run:
    """A learner at work in a folder."""

    learner: Learner
    recipe: Recipe
    folder: Path
    clock: Steps | Minutes
    tell: Tell
    batch: int
    """Samples of a step, of this process."""
    about: Mapping[str, Any]
    """What a run must not change on its way, beside recipe and network."""
    pack: Mapping[str, Any]
    """What the result says that it was trained on."""
    scorer: Scorer | None = None
    feed: "ShardFeed | SourceFeed | None" = None
    log_every: float = 0.0
    """Seconds between rows of the log, and, ten times as many, between those that are told."""
    compiled: bool = False

    def __post_init__(self) -> None:
        network = {"recipe": self.recipe.name, "network": self.recipe.network}
        self.about = {**network, **self.about}
        self.place: Any = None
        """Of the feed, in the checkpoint that the run goes on from."""
        self._checkpoints = Checkpoints(self.folder / "checkpoints")
        self._scores: dict[str, dict[str, float]] = {}
        self._flops, self._saved = 0.0, -1

    def go_on(self, source: Path) -> None:
        """Go on from the run of a folder, if any. Raises ConfigError for one of something else."""
        found, learner = Checkpoints(source / "checkpoints"), self.learner
        if (latest := found.latest()) is not None:
            said = found.load(latest, learner, self.about)
            if (way := said.get("feed", self._way)) != self._way:
                raise ConfigError(f"the run was begun on {way}: go on so, or take another folder")
            self.place, self.clock.seconds = said.get("place"), said.get("seconds", 0.0)
            learner.begun |= set(said.get("begun", ()))

    @property
    def _way(self) -> str:
        return self.feed.way if self.feed is not None else "a pack"

    def train(self) -> None:
        """Train until the clock says so, and save."""
        learner, task = self.learner, self.learner.task
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.compiled:
            task.quick |= parallel.compiled(dict(task.networks.items()), learner.device, self.tell)
        if learner.step == 0:
            (self.folder / "scores.csv").unlink(missing_ok=True)
        self._log = _Log(self.folder / "log.csv", self.recipe, learner.step == 0)
        stage: Stage | None = None
        for moment in self.clock.moments(learner):
            due = self.recipe.stage(moment.seconds)
            if due is not stage:
                stage = due
                self._begin(stage)
            warm = min(1.0, (moment.steps + 1) / _WARM_UP)
            cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, moment.share)))
            rate = stage.rate * self.recipe.rate * warm
            self._step(stage, rate * (_LEAST_RATE + (1 - _LEAST_RATE) * cosine))
            if self.clock.must_save:
                self._save()
        if self._saved != learner.step:
            self._save()
        if self.feed is not None:
            self.feed.close(self.folder)

    def _begin(self, stage: Stage) -> None:
        learner, task = self.learner, self.learner.task
        learner.begin_stage(stage)
        told: dict[str, Any] = {"until": stage.until, "learns": " ".join(stage.learns)}
        if learner.packs is None:  # a feed's samples are all to be learned from
            quick, task.quick = task.quick, dict(task.networks.items())
            self._flops = flops_of(lambda: learner.gradients(stage, _COUNTED)) / _COUNTED
            task.quick = quick
            told["gflop"] = round(self._flops / 1e9, 1)
        self.tell("stage", **told)

    def _step(self, stage: Stage, rate: float) -> None:
        self.learner.rng.begin(self.learner.step)
        try:
            terms = self.learner.learn(stage, self.batch, rate)
        except torch.OutOfMemoryError as error:
            why = f"no memory for {self.batch} samples: take a smaller --batch"
            raise GsvcError(why) from error
        self._log.add(terms)
        if parallel.rank() or not self._log.is_due(self.log_every):
            return
        samples = self.batch * self.learner.rng.parts
        row = self._log.write(self.learner.step, self.clock.seconds, samples, rate)
        if self._log.is_told(10 * self.log_every):
            if self._flops:
                row["tflops"] = row["samples_a_second"] * self._flops / 1e12
            self.tell("step", step=self.learner.step, seconds=self.clock.seconds, **row)

    def _save(self) -> None:
        begun, learner = time.monotonic(), self.learner
        place = {"feed": self._way, "place": self.feed.place() if self.feed is not None else None}
        if not parallel.rank():
            self._score()
        scored = time.monotonic()
        more = {"seconds": self.clock.seconds, "begun": sorted(learner.begun)}
        self._checkpoints.save(learner, {**self.about, **place, **more})
        average = {
            name: parallel.whole(value).half().cpu() for name, value in learner.weights().items()
        }
        if not parallel.rank():
            metadata = {RUN: json.dumps(self._facts())}
            write_tensors(self.folder / AVERAGE, average, metadata, _MOST_BYTES)
        self._saved = learner.step
        self.clock.saved(begun, scored)
        shown = {name: {k: round(v, 4) for k, v in x.items()} for name, x in self._scores.items()}
        told = {"scores": shown} if shown else {}
        self.tell("saved", step=learner.step, seconds=round(self.clock.seconds, 1), **told)

    def _score(self) -> None:
        if self.scorer is None or not self.clock.may_score:
            return
        with self.learner.averaged():  # in single precision: small gains are to be seen
            self._scores = self.scorer.score()
            self.scorer.sheet(self.folder / "sheet.png")
        path = self.folder / "scores.csv"
        if not path.exists():
            _write(path, "w", ["step", "seconds", "result", "alex", "psnr"])
        for name, score in self._scores.items():
            values = name, f"{score['alex']:.5f}", f"{score['psnr']:.3f}"
            _write(path, "a", [self.learner.step, f"{self.clock.seconds:.1f}", *values])

    def _facts(self) -> dict[str, Any]:
        settings, device = self.learner.task.settings, self.learner.device
        told = f"{torch.get_num_threads()} of {os.cpu_count()} CPU cores ({platform.machine()})"
        if device.type == "cuda":
            told = torch.cuda.get_device_name(device)
        return {
            "recipe": asdict(self.recipe),
            "networks": {name: settings[name] for name in self.learner.learned()},
            "pack": dict(self.pack),
            "device": f"{parallel.processes()} x {told}" if parallel.processes() > 1 else told,
            "step": self.learner.step,
            "seconds": round(self.clock.seconds, 1),
            "scores": self._scores,
        }


class _Log:
    """`log.csv`: means of the loss's terms since the row before, over all processes."""

    def __init__(self, path: Path, recipe: Recipe, is_new: bool) -> None:
        """`is_new`: begin the file anew."""
        names = dict.fromkeys(name for stage in recipe.stages for name in stage.weights)
        critic = ["critic"] if "adversary" in names else []
        self._path, self._terms = path, [*names, *critic, "loss", "norm"]
        self._sums: dict[str, Tensor] = {}
        self._steps, self._told = 0, -math.inf
        self._written = time.monotonic()
        if is_new and not parallel.rank():
            _write(path, "w", ["step", "seconds", "samples/s", "rate", *self._terms])

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Of one step; nothing waits for the device."""
        values = parallel.mean_of_all(
            torch.stack([term.detach().float() for term in terms.values()])
        )
        for name, term in zip(terms, values.unbind(), strict=True):
            self._sums[name] = self._sums[name] + term if name in self._sums else term
        self._steps += 1

    def is_due(self, every: float) -> bool:
        return time.monotonic() - self._written >= every

    def is_told(self, every: float) -> bool:
        if self._written - self._told < every:
            return False
        self._told = self._written
        return True

    def write(self, step: int, seconds: float, samples: int, rate: float) -> dict[str, float]:
        """A row; `samples`: of a step, of all processes. Returns its means and the speed."""
        now = time.monotonic()
        speed = self._steps * samples / max(now - self._written, 1e-9)
        means = {name: float(total) / self._steps for name, total in self._sums.items()}
        shown = [f"{means[name]:.5g}" if name in means else "" for name in self._terms]
        _write(self._path, "a", [step, f"{seconds:.1f}", f"{speed:.1f}", f"{rate:.2e}", *shown])
        self._sums, self._steps, self._written = {}, 0, now
        return {"samples_a_second": speed, **means}


def _write(path: Path, mode: str, values: Sequence[object]) -> None:
    with path.open(mode, newline="") as file:
        csv.writer(file).writerow(values)


def flops_of(run: Callable[[], object]) -> int:
    """Floating-point operations of a run, a multiplication and an addition being two."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())
