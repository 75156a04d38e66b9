"""What plans of a group should come to, foretold from those tried: Bayesian linear regression.

The logarithms of bits and of distortion, per pixel, are quadratic in the logarithms of how many
pictures there are, of their size and of what their quantiser leaves of the bits, and, for
distortion, of the error of `Placement`. Coefficients have a normal prior, fitted to grids of
trials (docs/logs/search.md, "Foretelling trials"); each trial narrows it. Source: Bishop, Pattern
Recognition and Machine Learning (2006), section 3.3.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.encoders.tuning import (
    LOG_BITS_OF_CRF,
    MODEL_BITS,
    MODEL_DISTORTION,
    MODEL_LEAST_ERROR,
    Prior,
)

_Array = NDArray[np.float64]


class PlanFeatures:
    """Plans as the model sees them, one a row."""

    def __init__(
        self,
        shares: Sequence[float],
        crfs: Sequence[float],
        scales: Sequence[float],
        errors: Sequence[float],
    ) -> None:
        """`shares`: pictures a frame; `crfs`: quantisers; `scales`: eighths of the side;
        `errors`: of drawing the frames between, mean of 1 - SSIM."""
        one = np.ones(len(shares))
        count = np.log(shares)
        fine = np.interp(crfs, *LOG_BITS_OF_CRF)
        size = np.log(np.array(scales) / 8)
        drawn = np.log(np.array(errors) + MODEL_LEAST_ERROR)
        bits = one, count, fine, size, count**2, fine**2, count * fine, count * size, fine * size
        own = one, count, fine, size, fine**2, fine * size
        self.bits: _Array = np.stack(bits, 1)
        self.distortion: _Array = np.stack([*own, drawn, drawn**2, drawn * fine, drawn * size], 1)
        self.place: _Array = np.stack([count, fine, size], 1)
        """Where they lie: plans that are near to each other come to about the same."""


def foretold(
    features: PlanFeatures, tried: Sequence[int], bits: Sequence[float], distortion: Sequence[float]
) -> tuple[_Array, _Array]:
    """Bits and distortion of every plan, in the units of those `tried`, rows of `features`.

    `bits`, `distortion`: per pixel, of the plans tried.
    """
    rows = list(tried)
    return (
        np.exp(_posterior(MODEL_BITS, features.bits, rows, np.log(np.maximum(bits, 1e-9)))),
        np.exp(
            _posterior(
                MODEL_DISTORTION, features.distortion, rows, np.log(np.maximum(distortion, 1e-9))
            )
        ),
    )


def _posterior(prior: Prior, features: _Array, tried: list[int], seen: _Array) -> _Array:
    """Mean of what is expected for every row of `features`."""
    mean: _Array = features @ np.array(prior.mean)
    if not tried:
        return mean
    spread = features * np.array(prior.deviation)
    known = spread[tried]
    noise = prior.noise**2 * np.eye(len(tried))
    missed = np.linalg.solve(known @ known.T + noise, seen - mean[tried])
    return np.asarray(mean + spread @ known.T @ missed, np.float64)
