"""The search over a group: where its keyframes go, their size and quantiser, by D + lambda R.

`GroupSearch` finds the best plan of one group by probes. `Planner` goes from group to group and
chooses the lambda that brings each to the rate or the quality asked for.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.encoders.coding.group_coder import CodingConfig
from gsvc.encoders.coding.svt_av1 import MAX_CRF
from gsvc.encoders.search.candidates import Placement, PlanFeatures, predicted_costs
from gsvc.encoders.search.distortion import Distortion, FloatMap
from gsvc.encoders.search.group_plan import GroupPlan, Probe
from gsvc.encoders.search.probes import Probes
from gsvc.encoders.tuning import (
    DISTORTION_OF_BITS,
    EASIER,
    LEAST_PROBE_CRF,
    MORE_AT_RATE,
    PLANS_APART,
    TEXTURE_OF_ST_LPIPS,
    TEXTURE_SLOPE,
)

_SCALES = (8, 6, 4)
_AT_ONCE = 2
_CRF_STEP = 2
_LEAST_SAVED = 1e-4
"""Of the error of drawing, mean of 1 - SSIM, by more pictures; a still scene needs one."""
_NEAR, _BEYOND = 0.05, 2.0
"""Logarithm of the bits by which a trial may miss those that are to be taken, and what each unit
beyond that adds to the logarithm of its distortion: what it would come to there is a guess."""
_MOVES = 4
"""How often the quantiser of the best plan is moved towards these bits."""
_WEIGHED = 4
"""Frames from one whose parts are weighed for the placement to the next: faces hardly go far."""

_Array = NDArray[np.float64]


class GroupSearch:
    """Finds the best plan for one group."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        recipe: CodingConfig,
        judge: Distortion,
        pool: Executor,
        *,
        begins: bool,
        open_ended: bool,
        tell: Callable[[int], None],
    ) -> None:
        """Arguments as of `Probes`; `begins`: a scene begins with the group; `tell` is told of how
        many trials were made."""
        self.begins, self.frames, self._tell = begins, len(pictures), tell
        self.trials = Probes(pictures, recipe, judge, pool, open_ended=open_ended)
        self._placement = Placement(
            self.trials.thumbnails,
            _weights(pictures, judge),
            pool,
            begins=begins,
            open_ended=open_ended,
            longest=recipe.longest_interval,
            grid=recipe.grid,
        )
        self._pixels = recipe.header.geometry.width * recipe.header.geometry.height * len(pictures)
        self._scales = [scale for scale in _SCALES if recipe.can_scale(scale)]

    def best(self, lmbda: float, start: GroupPlan | None, trials: int) -> Probe:
        """The trial with the least D + lambda R, after `trials` new ones, or one more.

        Tried are, two at a time, the plans that a model expects to cost least, which learns from
        all trials; and `start`, a plan of another group, as one of the first two.
        """
        for left in range(trials, 0, -_AT_ONCE):
            bits, distortion = self._foretold(self._grid)
            plans = self._proposed(distortion + lmbda * bits, start, min(left, _AT_ONCE))
            self._make(plans, lmbda)
        return min(self.trials.made.values(), key=lambda trial: trial.cost(lmbda))

    def best_at(self, goal: float, start: GroupPlan | None, trials: int) -> Probe:
        """The trial with the least D where its quantiser is moved until it takes `goal` bits.

        After `trials` new ones and some of moved quantisers; `start` as of `best`. No lambda leads
        there: the best plans of all lambdas lie far apart in bits, and what is best between two of
        them is the best of none.
        """
        for left in range(trials, 0, -_AT_ONCE):
            costs = self._costs_at(goal, *self._foretold(self._grid))
            plans = self._proposed(costs, start, min(left, _AT_ONCE))
            self._make(plans, price(costs.min() * self._pixels, goal))
        for _ in range(_MOVES):
            trial, moved = self._best_moved(goal)
            if abs(math.log(trial.bits / goal)) < _NEAR or moved in self.trials.made:
                break
            self._make([moved], price(trial.distortion, goal))
        return self._best_moved(goal)[0]

    def tried(self, plan: GroupPlan, lmbda: float) -> Probe:
        """The trial of a plan."""
        self.trials.make(lmbda, [plan])
        return self.trials.made[plan]

    def _make(self, plans: Sequence[GroupPlan], lmbda: float) -> None:
        self.trials.make(lmbda, plans)
        self._tell(len(self.trials.made))

    def _best_moved(self, goal: float) -> tuple[Probe, GroupPlan]:
        """The trial that should have the least D at `goal` bits, and its plan moved there.

        Of trials that differ in their quantiser alone the nearest to `goal` stands for all.
        """
        made = sorted(self.trials.made.values(), key=lambda one: -abs(math.log(one.bits / goal)))
        trials = list({(one.plan.keys, one.plan.scale): one for one in made}.values())
        moved = [self._moved(trial, goal) for trial in trials]
        own, there = self._foretold([one.plan for one in trials]), self._foretold(moved)
        tried = np.array([(one.bits, one.distortion) for one in trials]).T / self._pixels
        costs = self._costs_at(goal, *(tried * there / own))
        best = int(costs.argmin())
        return trials[best], moved[best]

    def _moved(self, trial: Probe, goal: float) -> GroupPlan:
        """A trial's plan with the quantiser that should bring it to `goal` bits."""
        crfs = np.arange(LEAST_PROBE_CRF, MAX_CRF + 1)
        plans = [trial.plan, *(replace(trial.plan, crf=float(crf)) for crf in crfs)]
        own, *each = np.log(self._foretold(plans)[0])
        crf = np.interp(own - math.log(trial.bits / goal), each[::-1], crfs[::-1])
        return replace(trial.plan, crf=round(4 * float(crf)) / 4)

    def _costs_at(self, goal: float, bits: _Array, distortion: _Array) -> _Array:
        """Distortion per pixel of plans with these bits per pixel, brought to `goal` bits."""
        miss = np.log(bits * self._pixels / goal)
        beyond = np.maximum(0.0, np.abs(miss) - _NEAR)
        costs = distortion * np.exp(DISTORTION_OF_BITS * miss + _BEYOND * beyond)
        return np.asarray(costs, np.float64)

    def _foretold(self, plans: Sequence[GroupPlan]) -> _Array:
        """Bits and distortion per pixel that plans should come to, (2, plans)."""
        made = list(self.trials.made.values())
        features = self._features([*plans, *(trial.plan for trial in made)])
        found = predicted_costs(
            features,
            range(len(plans), len(plans) + len(made)),
            [trial.bits / self._pixels for trial in made],
            [trial.distortion / self._pixels for trial in made],
        )
        return np.asarray(found, np.float64)[:, : len(plans)]

    def _proposed(self, costs: _Array, start: GroupPlan | None, count: int) -> list[GroupPlan]:
        """The `count` plans of least cost, before them in the first trials `start`, none near to
        another one or to one that was tried. `costs`: of `_grid`."""
        found = [self._transferred(start)] if start and not self.trials.made else []
        places = self._features([*self._grid, *found, *self.trials.made]).place
        taken = [*places[len(self._grid) :]]
        for row in np.argsort(costs, kind="stable"):
            if len(found) >= count:
                break
            near = (np.abs(places[row] - other) < PLANS_APART for other in taken)
            if not any(map(np.all, near)):
                found.append(self._grid[row])
                taken.append(places[row])
        return found

    @cached_property
    def _grid(self) -> list[GroupPlan]:
        """Plans that may be tried."""
        crfs = np.arange(LEAST_PROBE_CRF, MAX_CRF + 1, _CRF_STEP)
        keys = [self._placement.placed(count) for count in self._counts]
        return [GroupPlan(*one) for one in product(keys, map(float, crfs), self._scales)]

    @property
    def _counts(self) -> list[int]:
        """Numbers of pictures that differ by a sixth at least, where more of them help at all."""
        first, *others = self._placement.counts
        found = [first]
        for count in others:
            saved = self._placement.error(found[-1]) - self._placement.error(count)
            is_other = count >= found[-1] * 7 / 6 or count == others[-1]
            if is_other and saved > _LEAST_SAVED:
                found.append(count)
        return found

    def _features(self, plans: Sequence[GroupPlan]) -> PlanFeatures:
        counts = [self._count(plan) for plan in plans]
        return PlanFeatures(
            [count / len(self.trials.thumbnails) for count in counts],
            [plan.crf for plan in plans],
            [plan.scale for plan in plans],
            [self._placement.error(count) for count in counts],
        )

    def _transferred(self, plan: GroupPlan) -> GroupPlan:
        """A plan of another group, with as many pictures a frame."""
        gaps = len(plan.keys) - 1
        count = gaps * len(self.trials.thumbnails) / (plan.keys[-1] - plan.keys[0]) if gaps else 1
        return replace(plan, keys=self._placement.placed(round(count)))

    def _count(self, plan: GroupPlan) -> int:
        return len(self.trials.own_keys(plan))


def price(distortion: float, bits: float) -> float:
    """What a bit more in key pictures saves of a distortion over pixels and frames."""
    return DISTORTION_OF_BITS * float(distortion) / bits


def _weights(pictures: Sequence[Picture], judge: Distortion) -> list[FloatMap | None]:
    """Of the parts of every picture, about."""
    found = [judge.weights(picture) for picture in pictures[::_WEIGHED]]
    return [found[index // _WEIGHED] for index in range(len(pictures))]


_RATE_ROUNDS, _QUALITY_ROUNDS = 4, 6
_LEAST_PROBES = 2
"""At another lambda: those made before tell where the best plan lies."""
_NEAR_QUALITY = 0.03
"""Logarithm of the texture by which a quality may be missed without another trial."""
_QUALITY_PLANS, _QUALITY_MOVES = 3, 4
"""Plans whose quantiser is moved towards a quality, and how often."""


class GroupPlanner:
    """Plans groups in order: what one came to is where the next one's search begins."""

    def __init__(self, recipe: CodingConfig) -> None:
        self.lmbda = recipe.level.lmbda
        """That of the last group planned."""
        self._level, self._effort = recipe.level, recipe.effort
        self._goal: float | None = None
        """Texture that the quality asked for stands for."""
        if recipe.quality is not None:
            slope, offset = TEXTURE_OF_ST_LPIPS
            self._goal = (recipe.quality + offset) / slope
        self._is_limited = bool(recipe.max_bitrate or recipe.packet_bytes)
        self._plan: GroupPlan | None = None
        self._textures, self._frames = 0.0, 0

    @property
    def quality(self) -> float | None:
        """ST-LPIPS AlexNet of the frames planned so far, estimated from their texture.

        None without frames or a quality: other goals and limits move pictures after planning.
        """
        if self._goal is None or self._is_limited or not self._frames:
            return None
        slope, offset = TEXTURE_OF_ST_LPIPS
        return max(0.0, slope * self._textures / self._frames - offset)

    def best(self, search: GroupSearch, goal: float, *, exact: bool) -> Probe:
        """The best plan that takes about `goal` bits or, unless `exact`, at most so many.

        Where the recipe has a quality, the best plan that comes to it, whatever it takes.
        """
        if search.begins:
            self._plan = None  # Another scene moves otherwise.
        if exact and self._goal is None:
            trials = self._effort.trials_of(self._plan is None) + MORE_AT_RATE
            trial = search.best_at(goal, self._plan, trials)
            self.lmbda = price(trial.distortion, trial.bits)
        else:
            trial = self._walked(search, goal)
        self._plan = trial.plan
        self._textures += trial.texture * search.frames
        self._frames += search.frames
        return trial

    def _walked(self, search: GroupSearch, goal: float) -> Probe:
        """The best plan at the lambda that keeps to `goal` bits, or comes to the quality."""
        if self._goal is not None:
            trials, again, rounds = self._effort.trials, self._effort.trials, _QUALITY_ROUNDS
        else:
            self.lmbda = max(self._level.lmbda, EASIER * self.lmbda)
            trials = self._effort.trials_of(self._plan is None)
            again, rounds = 0, _RATE_ROUNDS
        trial = search.best(self.lmbda, self._plan, trials)
        visited = [trial]
        for _ in range(rounds):
            lmbda = self._corrected(trial, goal)
            if lmbda == self.lmbda:
                break
            self.lmbda = lmbda
            trial = search.best(lmbda, trial.plan, max(_LEAST_PROBES, again))
            visited.append(trial)
        return trial if self._goal is None else self._nearest(search, visited, self._goal)

    def _corrected(self, trial: Probe, goal: float) -> float:
        """The lambda to try after `trial`; the same where that came near enough."""
        if self._goal is not None:
            excess = trial.texture / self._goal
            is_near = abs(math.log(excess)) < _NEAR_QUALITY
            return self.lmbda if is_near else self.lmbda / min(8.0, max(0.125, excess**4))
        excess = trial.bits / goal
        return self.lmbda if excess < 1.15 else self.lmbda * min(4.0, excess)

    def _nearest(self, search: GroupSearch, visited: Sequence[Probe], goal: float) -> Probe:
        """The trial nearest to a texture: best plans lie far apart, so quantisers are moved."""

        def miss(trial: Probe) -> float:
            return abs(math.log(trial.texture / goal))

        found = sorted({trial.plan: trial for trial in visited}.values(), key=miss)
        if miss(found[0]) < _NEAR_QUALITY:
            return found[0]
        for begin in found[:_QUALITY_PLANS]:
            found += self._moved(search, begin, goal)
        near = [trial for trial in found if miss(trial) < _NEAR_QUALITY]
        return min(near, key=lambda trial: trial.bits) if near else min(found, key=miss)

    def _moved(self, search: GroupSearch, trial: Probe, goal: float) -> Iterator[Probe]:
        """Trials of a plan with other quantisers, nearer and nearer to a texture."""
        low, high = LEAST_PROBE_CRF, float(MAX_CRF)
        for _ in range(_QUALITY_MOVES):
            plan, miss = trial.plan, math.log(trial.texture / goal)
            low, high = (low, plan.crf) if miss > 0 else (plan.crf, high)
            crf = plan.crf - miss / TEXTURE_SLOPE
            crf = round(4 * (crf if low < crf < high else (low + high) / 2)) / 4
            if abs(miss) < _NEAR_QUALITY or crf in (low, high):
                return
            trial = search.tried(replace(plan, crf=crf), self.lmbda)
            yield trial
