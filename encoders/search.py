"""The search over a group: where its pictures go, their size and quantiser, by D + lambda R."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.encoders.distortion import FloatMap, Judge
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.pictures import MAX_CRF
from gsvc.encoders.placement import Placement
from gsvc.encoders.plan import Plan, Trial
from gsvc.encoders.rate_model import PlanFeatures, foretold
from gsvc.encoders.trials import Trials
from gsvc.encoders.tuning import LEAST_TRIAL_CRF, PLANS_APART

_SCALES = (8, 6, 4)
_AT_ONCE = 2
_CRF_STEP = 2
_LEAST_SAVED = 1e-4
"""Of the error of drawing, mean of 1 - SSIM, by more pictures; a still scene needs one."""
_WEIGHED = 4
"""Frames from one whose parts are weighed for the placement to the next: faces hardly go far."""


class GroupSearch:
    """Finds the best plan for one group."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        recipe: Recipe,
        judge: Judge,
        pool: Executor,
        *,
        begins: bool,
        open_ended: bool,
        tell: Callable[[int], None],
    ) -> None:
        """Arguments as of `Trials`; `begins`: a scene begins with the group; `tell` is told of how
        many trials were made."""
        self.begins, self.frames, self._tell = begins, len(pictures), tell
        self.trials = Trials(pictures, recipe, judge, pool, open_ended=open_ended)
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

    def best(self, lmbda: float, start: Plan | None, trials: int) -> Trial:
        """The trial with the least D + lambda R, after `trials` new ones, or one more.

        Tried are, two at a time, the plans that a model expects to cost least, which learns from
        all trials; and `start`, a plan of another group, as one of the first two.
        """
        for left in range(trials, 0, -_AT_ONCE):
            first = [self._transferred(start)] if start and not self.trials.made else []
            ahead = self._proposed(lmbda, first, min(left, _AT_ONCE))
            self.trials.make(lmbda, ahead)
            self._tell(len(self.trials.made))
        return min(self.trials.made.values(), key=lambda trial: trial.cost(lmbda))

    def tried(self, plan: Plan, lmbda: float) -> Trial:
        """The trial of a plan."""
        self.trials.make(lmbda, [plan])
        return self.trials.made[plan]

    def _proposed(self, lmbda: float, first: list[Plan], count: int) -> list[Plan]:
        """The `count` plans that should cost least, `first` before them, none near to another one
        or to one that was tried."""
        made = list(self.trials.made.values())
        rows = [*first, *(trial.plan for trial in made)]
        features = self._features([*self._grid, *rows])
        known = range(len(self._grid) + len(first), len(self._grid) + len(rows))
        bits, distortion = foretold(
            features,
            known,
            [trial.bits / self._pixels for trial in made],
            [trial.distortion / self._pixels for trial in made],
        )
        taken = [*features.place[len(self._grid) :]]
        found = list(first)
        costs = (distortion + lmbda * bits)[: len(self._grid)]
        for row in np.argsort(costs, kind="stable"):
            if len(found) >= count:
                break
            near = (np.abs(features.place[row] - other) < PLANS_APART for other in taken)
            if not any(map(np.all, near)):
                found.append(self._grid[row])
                taken.append(features.place[row])
        return found

    @cached_property
    def _grid(self) -> list[Plan]:
        """Plans that may be tried."""
        crfs = np.arange(LEAST_TRIAL_CRF, MAX_CRF + 1, _CRF_STEP)
        keys = [self._placement.placed(count) for count in self._counts]
        return [Plan(*one) for one in product(keys, map(float, crfs), self._scales)]

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

    def _features(self, plans: Sequence[Plan]) -> PlanFeatures:
        counts = [self._count(plan) for plan in plans]
        return PlanFeatures(
            [count / len(self.trials.thumbnails) for count in counts],
            [plan.crf for plan in plans],
            [plan.scale for plan in plans],
            [self._placement.error(count) for count in counts],
        )

    def _transferred(self, plan: Plan) -> Plan:
        """A plan of another group, with as many pictures a frame."""
        gaps = len(plan.keys) - 1
        count = gaps * len(self.trials.thumbnails) / (plan.keys[-1] - plan.keys[0]) if gaps else 1
        return replace(plan, keys=self._placement.placed(round(count)))

    def _count(self, plan: Plan) -> int:
        return len(self.trials.own_keys(plan))


def _weights(pictures: Sequence[Picture], judge: Judge) -> list[FloatMap | None]:
    """Of the parts of every picture, about."""
    found = [judge.weights(picture) for picture in pictures[::_WEIGHED]]
    return [found[index // _WEIGHED] for index in range(len(pictures))]
