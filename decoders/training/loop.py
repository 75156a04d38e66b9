"""The loop of training, and what surrounds it in a run by the clock; how busy the machine is.

`training_steps` is the loop: of runs on packs, which end with their minutes, and of runs on shards,
which end with their steps.
"""

import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from gsvc.codec.bitstream.errors import GsvcError
from gsvc.decoders.training.folder import LossTable, RunFolder, Scorer, ScoreTable
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.processes import of_the_first, processes, rank
from gsvc.decoders.training.recipe import Recipe, Stage

_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_PATIENCE = 5.0


class Usage:
    """Utilisation since it was last asked."""

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._wall, self._busy = time.monotonic(), time.process_time()

    def told(self) -> str:
        """Of the GPU, as nvidia-smi has it; else the processors that this process kept busy."""
        if self._is_gpu:
            return f"GPU {_gpu_percent()}"
        wall, busy = time.monotonic(), time.process_time()
        cores = (busy - self._busy) / max(1e-9, wall - self._wall)
        self._wall, self._busy = wall, busy
        return f"{cores:.1f} of {os.cpu_count()} cores"


def _gpu_percent() -> str:
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return "utilisation not known"
    return " ".join(f"{line.strip()} %" for line in done.stdout.splitlines())


def device_told(device: torch.device) -> str:
    """What it is, for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} of {os.cpu_count()} CPU cores ({platform.machine()})"


def flops_of(run: Callable[[], object]) -> int:
    """Floating-point operations of a run, a multiplication and an addition being two."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


_WARM_UP = 100
_LEAST_RATE = 0.02
_SAVE_EVERY = 120.0
_FIRST_SAVE = 10.0, 0.1
"""Seconds after the start, or the share of the time given, whichever is sooner."""
_SAVE_SHARE = 8
"""Times its own duration that a save waits for the next one, at least."""
_LINE_EVERY = 10.0
_LEAST_SECONDS = 1e-3
_COUNTED = 2
"""Samples of the batch whose operations are counted."""

Tell = Callable[..., None]
"""(event, **values): says what happened."""
Terms = dict[str, Tensor]
"""Of the loss, by name, and the gradient's norm."""


class Moment(NamedTuple):
    """Where a run is before a step."""

    seconds: float
    """Of the recipe's planned time: it decides the stage."""
    share: float
    """Of what this call trains, 0 to 1: the learning rate falls with it as a cosine."""
    steps: int
    """Since the warm-up began."""


def training_steps(
    recipe: Recipe,
    moments: Iterable[Moment],
    begin: Callable[[Stage], None],
    learn: Callable[[Stage, float], Terms],
) -> Iterator[tuple[Terms, float]]:
    """Take a step at each moment; gives its terms and its learning rate.

    `begin` is called where a stage begins, `learn` with the stage and the learning rate.
    """
    stage: Stage | None = None
    for moment in moments:
        due = recipe.stage(moment.seconds)
        if due is not stage:
            stage = due
            begin(stage)
        warm = min(1.0, (moment.steps + 1) / _WARM_UP)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, moment.share)))
        rate = stage.rate * recipe.rate * warm * (_LEAST_RATE + (1 - _LEAST_RATE) * cosine)
        yield learn(stage, rate), rate


class Loop:
    """Runs a learner for some minutes."""

    def __init__(
        self,
        learner: Learner,
        scorer: Scorer,
        folder: RunFolder,
        recipe: Recipe,
        tell: Tell,
        *,
        manifest: dict[str, Any],
        batch: int,
        compiled: bool,
    ) -> None:
        """`manifest`: of the pack. `batch`: samples of a step. `compiled`: run the networks through
        torch.compile."""
        self._learner, self._scorer, self._folder = learner, scorer, folder
        self._recipe, self._tell, self._batch = recipe, tell, batch
        self._is_compiled, self._manifest = compiled, manifest
        self.seconds = 0.0
        """Of training so far, of earlier calls too."""
        self.stopped = False
        """Set from outside: finish the step, save and end."""
        self.scores: dict[str, dict[str, float]] = {}
        self._usage = Usage(learner.device)
        self._flops = self._lined = 0.0

    def run(self, start: float, end: float) -> None:
        """Train from `start` to `end`, by time.monotonic(), at least a step, and save."""
        learner, before = self._learner, self.seconds
        pace = _Pace(start, max(end, start + _LEAST_SECONDS))
        path, is_new = self._folder.path, learner.step == 0
        table = LossTable(path / "log.csv", _columns(self._recipe), is_new)
        self._score_table = ScoreTable(path / "scores.csv", is_new)
        moments = self._moments(pace, before)
        for terms, rate in training_steps(self._recipe, moments, self._begin, self._step):
            table.add(terms)
            self.seconds = before + time.monotonic() - start
            if rank() == 0:
                self._log(table, rate)
                if pace.is_due:
                    self._save(pace)
        if rank() == 0 and pace.step != learner.step:
            self._save(pace)

    def _agreed(self, value: float) -> float:
        """The first process's: all must end, and change stages, at the same step."""
        return of_the_first(value, self._learner.device)

    def _moments(self, pace: "_Pace", before: float) -> Iterator[Moment]:
        """Until the time is over; `before`: seconds of earlier calls."""
        while True:
            now, steps = self._agreed(time.monotonic()), self._learner.steps_since_start
            is_over = now >= self._agreed(pace.last) and steps > 0
            if is_over or self._agreed(float(self.stopped)):
                return
            self.seconds = before + now - pace.start
            yield Moment(self.seconds, (now - pace.start) / (pace.end - pace.start), steps)

    def _begin(self, stage: Stage) -> None:
        learner = self._learner
        learner.begin_stage(stage)
        task = learner.task
        task.quick = dict(task.networks.items())
        self._flops = flops_of(lambda: learner.gradients(stage, _COUNTED)) / _COUNTED
        if self._is_compiled:
            task.quick = {name: torch.compile(network) for name, network in task.networks.items()}
        learns = " ".join(stage.learns)
        self._tell("stage", until=stage.until, learns=learns, gflop=round(self._flops / 1e9, 1))

    def _step(self, stage: Stage, rate: float) -> Terms:
        learner = self._learner
        try:
            return learner.learn(stage, self._batch, rate)
        except GsvcError:
            raise
        except torch.OutOfMemoryError as error:
            raise GsvcError(
                f"no memory for {self._batch} samples: take a smaller --batch"
            ) from error
        except Exception as error:  # a compiler's may be anything
            if not self._is_compiled:
                raise
            self._is_compiled = False
            learner.task.quick = dict(learner.task.networks.items())
            reason = str(error).strip().partition("\n")[0]
            self._tell("eager", why=f"torch.compile failed: {reason}")
            return learner.learn(stage, self._batch, rate)

    def _log(self, table: LossTable, rate: float) -> None:
        if not table.is_due:
            return
        means = table.write(self._learner.step, self.seconds, self._batch, rate)
        now = time.monotonic()
        if now - self._lined < _LINE_EVERY:
            return
        self._lined = now
        speed = means.pop("samples/s") * processes()
        teraflops = speed * self._flops / 1e12
        values = {name: f"{mean:.4g}" for name, mean in means.items()}
        self._tell(
            "training",
            step=self._learner.step,
            seconds=round(self.seconds, 1),
            samples_a_second=round(speed, 1),
            tflops=float(f"{teraflops:.3g}"),
            busy=self._usage.told(),
            **values,
        )

    def _save(self, pace: "_Pace") -> None:
        begun = time.monotonic()
        learner = self._learner
        told: dict[str, dict[str, float]] = {}
        if not self.stopped and pace.may_score:  # who stops it may not wait for scores
            with learner.averaged():  # in single precision: small gains are to be seen
                self.scores = self._scorer.score()
                self._scorer.sheet(self._folder.path / "sheet.png")
            self._score_table.write(learner.step, self.seconds, self.scores)
            told = {name: _rounded(score) for name, score in self.scores.items()}
        scored = time.monotonic()
        self._folder.save(learner.weights(), self._about(), learner.memory())
        pace.saved(begun, scored, learner.step)
        self._tell("saved", step=learner.step, seconds=round(self.seconds, 1), scores=told)

    def _about(self) -> dict[str, Any]:
        learned = self._learner.learned()
        settings = self._learner.task.settings
        return {
            "recipe": asdict(self._recipe),
            "networks": {name: settings[name] for name in learned},
            "pack": self._manifest,
            "device": device_told(self._learner.device),
            "step": self._learner.step,
            "seconds": round(self.seconds, 1),
            "scores": self.scores,
        }


class _Pace:
    """When to save, and when to end."""

    def __init__(self, start: float, end: float) -> None:
        seconds, share = _FIRST_SAVE
        self._next = start + min(seconds, share * (end - start))
        self.start, self.end = start, end
        self.last = end
        """When the last save must begin."""
        self.may_score = True
        """Whether scores are quick enough for the last save too."""
        self.step = -1
        """Of the last save."""

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def saved(self, begun: float, scored: float, step: int) -> None:
        now, self.step = time.monotonic(), step
        took = now - begun
        self._next = now + max(_SAVE_EVERY, _SAVE_SHARE * took)
        if _SAVE_SHARE * took > self.end - self.start:
            self.may_score, took = False, now - scored
        self.last = self.end - 1.5 * took - 1


def _rounded(score: dict[str, float]) -> dict[str, float]:
    return {kind: round(value, 4) for kind, value in score.items()}


def _columns(recipe: Recipe) -> list[str]:
    """Names of all terms that there can be."""
    names = dict.fromkeys(name for stage in recipe.stages for name in stage.weights)
    return [*names, *(["critic"] if "adversary" in names else []), "loss", "norm"]
