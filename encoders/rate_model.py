"""How bits and distortion follow from a plan: powers fitted to grids of trials.

Let z be what the quantiser does to bits. Bits grow as z * count^0.65, the distortion that key
pictures have themselves as z^-0.8, what interpolating between them adds as count^-0.7
(docs/logs/search.md, "The search leaps").
"""

import numpy as np

from gsvc.encoders.tuning import (
    LOG_BITS_OF_CRF,
    MODEL_BALANCE,
    MODEL_EXPONENTS,
    MODEL_LEAST_SHARES,
    MODEL_REACH,
)


def changed_crf(crf: float, change: float) -> float:
    """The quantiser, 24-70 in quarters, at which e^`change` times the bits at `crf` are taken."""
    crfs, log_bits = LOG_BITS_OF_CRF
    bits = float(np.interp(crf, crfs, log_bits)) + change
    return round(4 * float(np.interp(-bits, np.negative(log_bits), crfs))) / 4


def best_change(distortion: float, interpolation_share: float, worth: float) -> tuple[float, float]:
    """Where D + lambda R should be least: by how much log z and log count should change.

    `distortion`: D, above 0; `interpolation_share`: how much of it interpolation adds to that of
    the key pictures, 0 to 1; `worth`: lambda R.
    """
    shares = [1 - interpolation_share, interpolation_share]
    parts = distortion * np.maximum(shares, MODEL_LEAST_SHARES)
    off = np.log(parts / (worth * np.array(MODEL_BALANCE)))
    exponents = np.array(MODEL_EXPONENTS)
    finest, most = MODEL_REACH
    more = min(most, max(-most, float(np.linalg.solve(exponents, off)[1])))
    finer = float((off[0] - exponents[0, 1] * more) / exponents[0, 0])
    return min(finest, max(-finest, finer)), more
