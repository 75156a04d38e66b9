"""Fitting: the quantiser and size of key pictures that bring them to a number of bits."""

import math
from dataclasses import dataclass

from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.pictures import MAX_CRF, can_code
from gsvc.encoders.tuning import CRF_SLOPE

SMALLEST_SCALE = 4
_LEAST_CRF = 10.0
_CLOSE = 0.01
"""Logarithm of the bits by which the goal may be missed; under a limit four times that."""
_FAR = 0.03
_ROUNDS = 6


def fit_pictures(keys: KeyPictures, goal: float, *, exact: bool) -> KeyPictures:
    """Key pictures that take `goal` bits or, unless `exact`, at most so many.

    The quantiser is moved first, then the size. If even the smallest are too large, they are
    returned.
    """
    if not exact and keys.bits <= goal:
        return keys
    fit = _Fit(goal, exact)
    best = fit.walked(keys)
    # Of few pictures a step of the quantiser can take a tenth: another size has other steps.
    other = best.plan.scale - 1
    is_off = abs(math.log(best.bits / max(goal, 1.0))) > _FAR
    if not (exact and is_off and _is_possible(best, other)):
        return best
    finer = best.recoded(crf=max(_LEAST_CRF, best.plan.crf - 2), scale=other)
    return max(best, fit.walked(finer), key=fit.rank)


@dataclass(frozen=True)
class _Fit:
    """What `fit_pictures` aims at."""

    goal: float
    exact: bool

    def walked(self, keys: KeyPictures) -> KeyPictures:
        """The nearest that the quantiser, then the size lead to."""
        # Too many bits at `low` and below, few enough at `high` and above.
        low, high = _LEAST_CRF, float(MAX_CRF)
        best = keys
        for _ in range(_ROUNDS):
            plan, miss = keys.plan, math.log(keys.bits / max(self.goal, 1.0))
            if abs(miss) < _CLOSE or (not self.exact and -4 * _CLOSE < miss <= 0):
                break
            if miss > 0 and plan.crf >= MAX_CRF:
                if not _is_possible(keys, plan.scale - 2):
                    break
                keys = keys.recoded(crf=64.0, scale=plan.scale - 2)
                low, high = _LEAST_CRF, float(MAX_CRF)
            else:
                low, high = (plan.crf, high) if miss > 0 else (low, plan.crf)
                crf = _next_crf(plan.crf, miss, low, high)
                if crf is None:
                    break
                keys = keys.recoded(crf=crf)
            best = max(best, keys, key=self.rank)
        return best

    def rank(self, keys: KeyPictures) -> tuple[bool, float]:
        """Higher where the bits are nearer to the goal."""
        bits, fits = keys.bits, keys.bits <= self.goal
        if not self.exact:
            return fits, bits if fits else -bits
        return True, -abs(math.log(bits / self.goal)) if self.goal > 0 else -bits


def _next_crf(crf: float, miss: float, low: float, high: float) -> float | None:
    """The quantiser to try where `crf` missed the goal by so much; None where none is left."""
    guess = min(max(crf + miss / CRF_SLOPE, low), high)
    if not low < guess < high and high < MAX_CRF:
        guess = (low + high) / 2
    guess = round(4 * guess) / 4
    is_stuck = guess == crf or (guess in (low, high) and high - low <= 0.25)
    return None if is_stuck else guess


def _is_possible(keys: KeyPictures, scale: int) -> bool:
    return scale >= SMALLEST_SCALE and can_code(keys.coded_size(scale))
