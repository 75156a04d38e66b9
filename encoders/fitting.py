"""Fitting: the quantiser and size of key pictures that bring them to a number of bits."""

import math
from collections.abc import Iterator
from functools import partial

from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.pictures import MAX_CRF
from gsvc.encoders.tuning import CRF_SLOPE

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
    rank = partial(_rank, goal=goal, exact=exact)
    best = max(_walk(keys, goal, exact), key=rank)
    # Of few pictures a step of the quantiser can take a tenth: another size has other steps.
    other = best.plan.scale - 1
    is_off = abs(math.log(best.bits / max(goal, 1.0))) > _FAR
    if not (exact and is_off and best.recipe.can_scale(other)):
        return best
    finer = best.recoded(crf=max(_LEAST_CRF, best.plan.crf - 2), scale=other)
    return max(best, *_walk(finer, goal, exact), key=rank)


def _walk(keys: KeyPictures, goal: float, exact: bool) -> Iterator[KeyPictures]:
    """`keys`, and others nearer and nearer to the goal: the quantiser is moved, then the size."""
    yield keys
    # Too many bits at `low` and below, few enough at `high` and above.
    low, high = _LEAST_CRF, float(MAX_CRF)
    for _ in range(_ROUNDS):
        plan, miss = keys.plan, math.log(keys.bits / max(goal, 1.0))
        if abs(miss) < _CLOSE or (not exact and -4 * _CLOSE < miss <= 0):
            return
        if miss > 0 and plan.crf >= MAX_CRF:
            if not keys.recipe.can_scale(plan.scale - 2):
                return
            keys = keys.recoded(crf=64.0, scale=plan.scale - 2)
            low, high = _LEAST_CRF, float(MAX_CRF)
        else:
            low, high = (plan.crf, high) if miss > 0 else (low, plan.crf)
            crf = _next_crf(plan.crf, miss, low, high)
            if crf is None:
                return
            keys = keys.recoded(crf=crf)
        yield keys


def _rank(keys: KeyPictures, goal: float, exact: bool) -> tuple[bool, float]:
    """Higher where the bits are nearer to the goal."""
    bits, fits = keys.bits, keys.bits <= goal
    if not exact:
        return fits, bits if fits else -bits
    return True, -abs(math.log(bits / goal)) if goal > 0 else -bits


def _next_crf(crf: float, miss: float, low: float, high: float) -> float | None:
    """The quantiser to try where `crf` missed the goal by so much; None where none is left."""
    guess = min(max(crf + miss / CRF_SLOPE, low), high)
    if not low < guess < high and high < MAX_CRF:
        guess = (low + high) / 2
    guess = round(4 * guess) / 4
    is_stuck = guess == crf or (guess in (low, high) and high - low <= 0.25)
    return None if is_stuck else guess
