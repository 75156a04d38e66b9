"""The plan of each group, at the lambda that brings it to the rate or the quality asked for."""

from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.plan import Plan, Trial
from gsvc.encoders.search import GroupSearch
from gsvc.encoders.tuning import EASIER, TEXTURE_OF_ST_LPIPS

_RATE_ROUNDS, _QUALITY_ROUNDS = 4, 6
_LEAST_TRIALS = 2
"""At another lambda: those made before tell where the best plan lies."""


class Planner:
    """Plans groups in order: what one came to is where the next one's search begins."""

    def __init__(self, recipe: Recipe) -> None:
        self.lmbda = recipe.level.lmbda
        """That of the last group planned."""
        self._level, self._effort, self._quality = recipe.level, recipe.effort, recipe.quality
        self._plan: Plan | None = None

    def best(self, search: GroupSearch, goal: float, *, exact: bool) -> Trial:
        """The best plan that takes about `goal` bits or, unless `exact`, at most so many.

        Where the recipe has a quality, the best plan that comes to it, whatever it takes.
        """
        if search.begins:
            self._plan = None  # Another scene moves otherwise.
        if self._quality is not None:
            trials, again, rounds = self._effort.trials, self._effort.trials, _QUALITY_ROUNDS
        else:
            if not exact:
                self.lmbda = max(self._level.lmbda, EASIER * self.lmbda)
            trials = self._effort.trials_of(self._plan is None)
            again, rounds = self._effort.trials if exact else 0, _RATE_ROUNDS
        trial = search.best(self.lmbda, self._plan, trials)
        for _ in range(rounds):
            lmbda = self._corrected(trial, goal, exact=exact)
            if lmbda == self.lmbda:
                break
            self.lmbda = lmbda
            trial = search.best(lmbda, trial.plan, max(_LEAST_TRIALS, again))
        self._plan = trial.plan
        return trial

    def _corrected(self, trial: Trial, goal: float, *, exact: bool) -> float:
        """The lambda to try after `trial`; the same where that came near enough."""
        if self._quality is not None:
            slope, offset = TEXTURE_OF_ST_LPIPS
            excess = trial.texture / ((self._quality + offset) / slope)
            is_near = 0.97 < excess < 1.03
            return self.lmbda if is_near else self.lmbda / min(8.0, max(0.125, excess**4))
        excess = trial.bits / goal
        is_near = excess < 1.15 and (excess > 0.85 or not exact)
        return self.lmbda if is_near else self.lmbda * min(4.0, max(0.25, excess))
