"""The plan of each group, at the lambda that brings it to the rate or the quality asked for."""

from gsvc.encoders.distortion import texture_distortion_of
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.plan import Plan, Trial
from gsvc.encoders.search import GroupSearch
from gsvc.encoders.tuning import EASIER

_RATE_ROUNDS = 4
_QUALITY_ROUNDS = 6
_LEAST_TRIALS = 4
"""At another lambda: the usual plan, the one before, and two leaps from the better of them."""


class Planner:
    """Plans groups in order: what one came to is where the next one's search begins."""

    def __init__(self, recipe: Recipe) -> None:
        self.lmbda = recipe.level.lmbda
        """That of the last group planned."""
        self._level, self._effort, self._quality = recipe.level, recipe.effort, recipe.quality
        self._plan: Plan | None = None

    def best(self, search: GroupSearch, goal: float, *, exact: bool) -> Trial:
        """The best plan that takes about `goal` bits or, unless `exact`, at most so many."""
        if search.begins:
            self._plan = None  # Another scene moves otherwise.
        if self._quality is not None:
            trial = self._of_quality(search, texture_distortion_of(self._quality))
        else:
            trial = self._of_rate(search, goal, exact=exact)
        self._plan = trial.plan
        return trial

    def _of_rate(self, search: GroupSearch, goal: float, *, exact: bool) -> Trial:
        lmbda = self.lmbda if exact else max(self._level.lmbda, EASIER * self.lmbda)
        trials = self._effort.trials_of(self._plan is None, lmbda)
        plan = search.best(lmbda, self._plan, trials)
        again = max(_LEAST_TRIALS, self._effort.trials) if exact else _LEAST_TRIALS
        for _ in range(_RATE_ROUNDS):
            excess = search.trials.one(lmbda, plan).bits / goal
            if excess < 1.15 and (excess > 0.85 or not exact):
                break
            lmbda *= min(4.0, max(0.25, excess))
            plan = search.best(lmbda, plan, again)
        self.lmbda = lmbda
        return search.trials.one(lmbda, plan)

    def _of_quality(self, search: GroupSearch, goal: float) -> Trial:
        lmbda = self.lmbda
        plan = search.best(lmbda, self._plan, self._effort.trials)
        for _ in range(_QUALITY_ROUNDS):
            trial = search.trials.one(lmbda, plan)
            excess = search.trials.mean_texture(trial) / goal
            if 0.97 < excess < 1.03:
                break
            lmbda /= min(8.0, max(0.125, excess**4))
            plan = search.best(lmbda, plan, max(_LEAST_TRIALS, self._effort.trials))
        self.lmbda = lmbda
        return search.trials.one(lmbda, plan)
