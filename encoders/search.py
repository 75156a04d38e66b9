"""The search over a group: where its pictures go, their size and quantiser, by D + lambda R."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import chain, islice

from gsvc.codec.frames import Picture
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.pictures import MAX_CRF
from gsvc.encoders.placement import Placement
from gsvc.encoders.plan import Plan, Trial
from gsvc.encoders.rate_model import foretold
from gsvc.encoders.trials import Trials
from gsvc.encoders.tuning import (
    CRF_PER_SCALE,
    CRF_STEP,
    LEAST_TRIAL_CRF,
    SMALLER_FROM_CRF,
    USUAL_PICTURE,
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
            pool,
            begins=begins,
            open_ended=open_ended,
            longest=recipe.longest_interval,
        )
        self._place = recipe.place
        self._scales = [scale for scale in _SCALES if recipe.can_scale(scale)]

    def best(self, lmbda: float, start: Plan | None, trials: int) -> Trial:
        """The trial with the least D + lambda R of `trials` trials, or one more.

        From the better of the usual plan and `start`, or a smaller size, it leaps to where a model
        says the least is; where that gives nothing new, it walks to better neighbours. Two are
        tried at a time.
        """
        usual = self._usual(lmbda)
        other = self._transferred(start) if start else next(self._resized(usual), usual)
        first = [usual, other][:trials]
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
        """As many pictures as pay for what they save of the error of drawing, if each takes as many
        bits as is usual."""
        picture = lmbda * USUAL_PICTURE / (self._place * len(self.trials.thumbnails))
        count = min(
            self._placement.counts,
            key=lambda one: self._placement.error(one) + picture * one,
        )
        return Plan(self._placement.placed(count), usual_crf(lmbda), 8)

    def _transferred(self, plan: Plan) -> Plan:
        """A plan of another group, with as many pictures a frame."""
        gaps = len(plan.keys) - 1
        count = gaps * len(self.trials.thumbnails) / (plan.keys[-1] - plan.keys[0]) if gaps else 1
        return replace(plan, keys=self._placement.placed(round(count)))

    def _leaps(self, trial: Trial, lmbda: float) -> Iterator[Plan]:
        """Where D + lambda R should be least, and half-way there."""
        if trial.distortion <= 0:
            return
        place, now = self._placement, self._count(trial.plan)
        count, crf = foretold(trial, now, place.counts, place.error, lmbda)
        yield replace(trial.plan, keys=place.placed(count), crf=crf)
        half = round((now * count) ** 0.5)
        yield replace(trial.plan, keys=place.placed(half), crf=(crf + trial.plan.crf) // 2)

    def _neighbours(self, plan: Plan, step: float) -> Iterator[Plan]:
        """Plans one step away: other sizes, rarer pictures, closer ones, other quantisers."""
        yield from self._resized(plan)
        count = self._count(plan)
        for sign in (-1, 1):
            keys = self._placement.placed(round(count * 2 ** (sign * step / CRF_STEP)))
            if keys != plan.keys:
                yield replace(plan, keys=keys)
            crf = min(MAX_CRF, max(LEAST_TRIAL_CRF, plan.crf + sign * step / 2))
            yield replace(plan, crf=crf)

    def _resized(self, plan: Plan) -> Iterator[Plan]:
        for scale in self._scales:
            if abs(scale - plan.scale) == 2 and plan.crf >= SMALLER_FROM_CRF:
                crf = min(MAX_CRF, plan.crf + CRF_PER_SCALE * (scale - plan.scale))
                yield replace(plan, scale=scale, crf=crf)

    def _count(self, plan: Plan) -> int:
        return len(self.trials.own_keys(plan))
