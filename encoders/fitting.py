"""Fitting: the quantiser and size of key pictures that bring them to a number of bits."""

import math
from collections.abc import Iterator, Mapping
from functools import partial

from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.pictures import MAX_CRF
from gsvc.encoders.tuning import CRF_SLOPE

_LEAST_CRF = 10.0
_CLOSE = 0.01
"""Logarithm of the bits by which the goal may be missed; under a limit four times that."""
_FAR = 0.03
_ROUNDS = 6
_STEP = 0.25
"""Of the quantiser: SVT-AV1 knows quarters."""


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
    misses: dict[float, float] = {}
    for _ in range(_ROUNDS):
        plan, miss = keys.plan, math.log(keys.bits / max(goal, 1.0))
        if abs(miss) < _CLOSE or (not exact and -4 * _CLOSE < miss <= 0):
            return
        if miss > 0 and plan.crf >= MAX_CRF:
            if not keys.recipe.can_scale(plan.scale - 2):
                return
            keys, misses = keys.recoded(crf=64.0, scale=plan.scale - 2), {}
        else:
            misses[plan.crf] = miss
            crf = _next_crf(misses)
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


def _next_crf(misses: Mapping[float, float]) -> float | None:
    """The quantiser to try after some that missed the goal by so much; None where none is left."""
    low = max((crf for crf, miss in misses.items() if miss > 0), default=None)
    high = min((crf for crf, miss in misses.items() if miss <= 0), default=None)
    if low is not None and high is not None:
        guess = low + (high - low) * misses[low] / (misses[low] - misses[high])
    else:
        crf, miss = list(misses.items())[-1]
        guess = crf + miss / CRF_SLOPE
    first = _LEAST_CRF if low is None else low + _STEP
    last = float(MAX_CRF) if high is None else high - _STEP
    return min(max(_STEP * round(guess / _STEP), first), last) if first <= last else None
