"""How bits and distortion follow from a plan: powers fitted to grids of trials.

Let z be what the quantiser does to the logarithm of bits. Bits grow as e^(1.15 z) * count^0.65, the
distortion that coded pictures have themselves falls as e^(-0.85 z) * count^-0.19; what drawing the
frames between adds goes with the error of `Placement` (docs/logs/search.md, "An objective that sees
motion").
"""

from collections.abc import Callable, Sequence

import numpy as np

from gsvc.encoders.plan import Trial
from gsvc.encoders.tuning import (
    LEAST_TRIAL_CRF,
    LOG_BITS_OF_CRF,
    MODEL_BITS,
    MODEL_DISTORTION,
    MODEL_LEAST_ERROR,
    MODEL_REACH,
)


def foretold(
    trial: Trial, count: int, counts: Sequence[int], error: Callable[[int], float], lmbda: float
) -> tuple[int, float]:
    """The number of pictures and the quantiser where D + lambda R should be least.

    `count`: pictures of the trial; `counts`: that may be taken; `error`: of drawing the frames
    between so many pictures, per frame.
    """
    finest, most = MODEL_REACH
    crfs, log_bits = LOG_BITS_OF_CRF
    now = float(np.interp(trial.plan.crf, crfs, log_bits))
    quantisers = np.arange(LEAST_TRIAL_CRF, crfs[-1] + 1)
    finer = np.interp(quantisers, crfs, log_bits) - now
    quantisers, finer = quantisers[abs(finer) <= finest], finer[abs(finer) <= finest]
    near = [one for one in counts if abs(np.log(one / count)) <= most] or [count]
    more = np.log(np.array(near) / count)[:, None]
    drawn = np.array([error(one) + MODEL_LEAST_ERROR for one in near])[:, None]
    added = trial.distortion * max(0.0, trial.interpolation_share)
    own = trial.distortion - added
    total = own * np.exp(MODEL_DISTORTION[0] * finer + MODEL_DISTORTION[1] * more)
    total = total + added * drawn / (error(count) + MODEL_LEAST_ERROR)
    total = total + lmbda * trial.bits * np.exp(MODEL_BITS[0] * finer + MODEL_BITS[1] * more)
    row, column = np.unravel_index(int(total.argmin()), total.shape)
    return near[row], float(quantisers[column])
