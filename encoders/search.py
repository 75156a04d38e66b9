"""The search over a group: where key pictures go, their size and quantiser, by D + lambda R."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import chain, islice

from gsvc.codec.frames import Picture
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.pictures import MAX_CRF
from gsvc.encoders.placement import Placement
from gsvc.encoders.plan import Plan, Trial
from gsvc.encoders.rate_model import best_change, changed_crf
from gsvc.encoders.trials import Trials
from gsvc.encoders.tuning import (
    CRF_PER_SCALE,
    CRF_STEP,
    FINER,
    LEAST_TRIAL_CRF,
    RARER,
    SMALLER_FROM_CRF,
    USUAL_COUNT,
    usual_crf,
)

_SCALES = (8, 6, 4)
_AT_ONCE = 2


class GroupSearch:
    """Finds the best plan for one group."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        recipe: Recipe,
        pool: Executor,
        *,
        begins: bool,
        open_ended: bool,
    ) -> None:
        """Arguments as of `Trials`; `begins`: a scene begins with the group."""
        self.begins = begins
        self.trials = Trials(pictures, recipe, pool, open_ended=open_ended)
        self._placement = Placement(
            self.trials.thumbnails,
            begins=begins,
            open_ended=open_ended,
            longest=recipe.longest_interval,
        )
        self._scales = [scale for scale in _SCALES if recipe.can_scale(scale)]

    def best(self, lmbda: float, start: Plan | None, trials: int) -> Trial:
        """The trial with the least D + lambda R of `trials` trials, or one more.

        From the better of the usual plan and `start`, or one with fewer and better pictures, it
        leaps to where a model says the least is; where that gives nothing new, it walks to better
        neighbours. Two are tried at a time.
        """

        usual = self._usual(lmbda)
        first = [usual, self._transferred(start) if start else self._rarer(usual)][:trials]
        tried = dict.fromkeys(first)
        best = self.trials.best(lmbda, first)
        step = CRF_STEP
        while len(tried) < trials and step >= 1:
            near = chain(self._leaps(best, lmbda), self._neighbours(best.plan, step))
            ahead = list(islice((plan for plan in near if plan not in tried), _AT_ONCE))
            if not ahead:
                step /= 2
                continue
            tried.update(dict.fromkeys(ahead))
            best = self.trials.best(lmbda, [best.plan, *ahead])
        return best

    def _usual(self, lmbda: float) -> Plan:
        """As many key pictures as are usual; repeated frames need none."""
        count = round(USUAL_COUNT / math.sqrt(lmbda) * self._placement.different / 100)
        return Plan(self._placement.even(count), usual_crf(lmbda), 8)

    def _rarer(self, plan: Plan) -> Plan:
        """Far fewer pictures, and better ones."""
        keys = self._placement.even(round(self._count(plan) / RARER))
        return replace(plan, keys=keys, crf=max(LEAST_TRIAL_CRF, plan.crf - FINER))

    def _transferred(self, plan: Plan) -> Plan:
        """A plan of another group, its key pictures as far apart in this one."""
        gaps = len(plan.keys) - 1
        count = gaps * len(self.trials.thumbnails) / (plan.keys[-1] - plan.keys[0]) if gaps else 1
        return replace(plan, keys=self._placement.even(round(count)))

    def _leaps(self, trial: Trial, lmbda: float) -> Iterator[Plan]:
        """Where D + lambda R should be least, and half-way there."""
        if trial.distortion <= 0:
            return
        worth = lmbda * trial.bits
        finer, more = best_change(trial.distortion, trial.interpolation_share, worth)
        for share in (1.0, 0.5):
            count = round(self._count(trial.plan) * math.exp(share * more))
            crf = changed_crf(trial.plan.crf, share * finer)
            yield replace(trial.plan, keys=self._placement.even(count), crf=crf)

    def _neighbours(self, plan: Plan, step: float) -> Iterator[Plan]:
        """Plans one step away: rarer and better key pictures, closer and worse ones, other sizes
        and places."""
        count = self._count(plan)
        place, other = self._placement.even, self._placement.uneven
        if plan.keys != place(count):
            place, other = other, place
        for sign in (-1, 1):
            keys = place(round(count * 2 ** (sign * step / CRF_STEP)))
            if keys != plan.keys:
                yield replace(plan, keys=keys)
            crf = min(MAX_CRF, max(LEAST_TRIAL_CRF, plan.crf + sign * step))
            yield replace(plan, crf=crf)
        for scale in self._scales:
            if abs(scale - plan.scale) == 2 and plan.crf >= SMALLER_FROM_CRF:
                crf = min(MAX_CRF, plan.crf + CRF_PER_SCALE * (scale - plan.scale))
                yield replace(plan, scale=scale, crf=crf)
        if (keys := other(count)) != plan.keys:
            yield replace(plan, keys=keys)

    def _count(self, plan: Plan) -> int:
        return len(self.trials.own_keys(plan))
