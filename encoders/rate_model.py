"""How bits and distortion follow from a plan: powers fitted to grids of trials on ten development clips.

Let z be what the quantiser does to bits. Bits grow as z * count^0.65, the distortion that key pictures have themselves
as z^-0.8, that of motion between them as count^-0.7 (see docs/logs/search.md).
"""

import numpy as np

_CRFS = (24.0, 54.0, 60.0, 66.0, 70.0)
_LOG_BITS = (0.0, -1.81, -2.33, -2.98, -3.13)
_EXPONENTS = np.array([[1.8, 0.65], [1.0, 1.35]])
"""Of log z and log count, in the logarithm of bits less that of either distortion."""
_BALANCE = np.array([1.7, 0.45])
"""Either distortion where D + lambda R is least, in units of lambda R."""
_LEAST_SHARES = np.array([0.02, 0.03])
"""Of all distortion, that either has: what is measured as nothing may be a little."""
_FINER, _MORE = 2.0, 1.4
"""How far log z and log count are foretold."""


def changed_crf(crf: float, change: float) -> float:
    """The quantiser, 24-70 in quarters, at which key pictures take e^`change` times the bits that they take at `crf`."""
    bits = float(np.interp(crf, _CRFS, _LOG_BITS)) + change
    return round(4 * float(np.interp(-bits, np.negative(_LOG_BITS), _CRFS))) / 4


def best_change(distortion: float, unmoved: float, worth: float) -> tuple[float, float]:
    """Where D + lambda R should be least: by how much log z and log count should change.

    `distortion`: D, above 0; `unmoved`: share of it that key pictures do not have themselves; `worth`: lambda R.
    """
    parts = distortion * np.maximum([1 - unmoved, unmoved], _LEAST_SHARES)
    off = np.log(parts / (worth * _BALANCE))
    more = min(_MORE, max(-_MORE, float(np.linalg.solve(_EXPONENTS, off)[1])))
    finer = float((off[0] - _EXPONENTS[0, 1] * more) / _EXPONENTS[0, 0])
    return min(_FINER, max(-_FINER, finer)), more
