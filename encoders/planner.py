"""The plan of each group, at the lambda that brings it to the rate or the quality asked for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.pictures import MAX_CRF
from gsvc.encoders.plan import Plan, Trial
from gsvc.encoders.search import GroupSearch, price
from gsvc.encoders.tuning import (
    EASIER,
    LEAST_TRIAL_CRF,
    MORE_AT_RATE,
    TEXTURE_OF_ST_LPIPS,
    TEXTURE_SLOPE,
)

_RATE_ROUNDS, _QUALITY_ROUNDS = 4, 6
_LEAST_TRIALS = 2
"""At another lambda: those made before tell where the best plan lies."""
_NEAR = 0.03
"""Logarithm of the texture by which a quality may be missed without another trial."""
_MOVED, _MOVES = 3, 4
"""Plans whose quantiser is moved towards a quality, and how often."""


class Planner:
    """Plans groups in order: what one came to is where the next one's search begins."""

    def __init__(self, recipe: Recipe) -> None:
        self.lmbda = recipe.level.lmbda
        """That of the last group planned."""
        self._level, self._effort = recipe.level, recipe.effort
        self._goal: float | None = None
        """Texture that the quality asked for stands for."""
        if recipe.quality is not None:
            slope, offset = TEXTURE_OF_ST_LPIPS
            self._goal = (recipe.quality + offset) / slope
        self._is_limited = bool(recipe.max_bitrate or recipe.packet_bytes)
        self._plan: Plan | None = None
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

    def best(self, search: GroupSearch, goal: float, *, exact: bool) -> Trial:
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

    def _walked(self, search: GroupSearch, goal: float) -> Trial:
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
            trial = search.best(lmbda, trial.plan, max(_LEAST_TRIALS, again))
            visited.append(trial)
        return trial if self._goal is None else self._nearest(search, visited, self._goal)

    def _corrected(self, trial: Trial, goal: float) -> float:
        """The lambda to try after `trial`; the same where that came near enough."""
        if self._goal is not None:
            excess = trial.texture / self._goal
            is_near = abs(math.log(excess)) < _NEAR
            return self.lmbda if is_near else self.lmbda / min(8.0, max(0.125, excess**4))
        excess = trial.bits / goal
        return self.lmbda if excess < 1.15 else self.lmbda * min(4.0, excess)

    def _nearest(self, search: GroupSearch, visited: Sequence[Trial], goal: float) -> Trial:
        """The trial nearest to a texture: best plans lie far apart, so quantisers are moved."""

        def miss(trial: Trial) -> float:
            return abs(math.log(trial.texture / goal))

        found = sorted({trial.plan: trial for trial in visited}.values(), key=miss)
        if miss(found[0]) < _NEAR:
            return found[0]
        for begin in found[:_MOVED]:
            found += self._moved(search, begin, goal)
        near = [trial for trial in found if miss(trial) < _NEAR]
        return min(near, key=lambda trial: trial.bits) if near else min(found, key=miss)

    def _moved(self, search: GroupSearch, trial: Trial, goal: float) -> Iterator[Trial]:
        """Trials of a plan with other quantisers, nearer and nearer to a texture."""
        low, high = LEAST_TRIAL_CRF, float(MAX_CRF)
        for _ in range(_MOVES):
            plan, miss = trial.plan, math.log(trial.texture / goal)
            low, high = (low, plan.crf) if miss > 0 else (plan.crf, high)
            crf = plan.crf - miss / TEXTURE_SLOPE
            crf = round(4 * (crf if low < crf < high else (low + high) / 2)) / 4
            if abs(miss) < _NEAR or crf in (low, high):
                return
            trial = search.tried(replace(plan, crf=crf), self.lmbda)
            yield trial
