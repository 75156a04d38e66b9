"""Scores from paired comparisons with ties: Bradley and Terry's model as Davidson extended it.

With strengths p, i is chosen over j with probability p_i / (p_i + p_j + v sqrt(p_i p_j)), and the
answer is a tie with v sqrt(p_i p_j) over the same; v >= 0 is common to all pairs (R. R. Davidson,
"On extending the Bradley-Terry model to accommodate ties in paired comparison experiments", JASA
65, 1970). Scores are log p. In log p and log v this is a multinomial logit: concave, solved by
Newton's method.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]
"""Shape (..., pairs, 3): how often the first was chosen, the second, neither."""

PRIOR_DEVIATION = 3.0
"""Of a normal prior on log p and log v. A version that always wins stays finite by it, and others
hardly move: a score of 3 is to be chosen twenty times as often."""
_ROUNDS, _LONGEST_STEP = 60, 1.0
_DRAWS = 1000
_INTERVAL = (2.5, 97.5)
_SEED = 1970


@dataclass(frozen=True)
class Fit:
    """Scores of versions relative to the first one, which has 0."""

    scores: NDArray[np.float64]
    """Shape (versions,): log p."""
    low: NDArray[np.float64] | None
    """Ends of the 95 % interval, shape (versions,); None for fewer than two voters."""
    high: NDArray[np.float64] | None


def fit(pairs: Sequence[tuple[int, int]], counts: Counts, versions: int) -> Fit:
    """Scores from the votes of all voters, and intervals by drawing voters with replacement.

    Args:
        pairs: The two versions of each pair, by index.
        counts: Shape (voters, pairs, 3).
        versions: Their number.
    """
    scores = _solve(pairs, counts.sum(axis=0)[None], versions)[0]
    voters = len(counts)
    if voters < 2:
        return Fit(scores, None, None)
    random = np.random.default_rng(_SEED)
    weights = random.multinomial(voters, np.full(voters, 1 / voters), size=_DRAWS)
    drawn = np.einsum("dv,vpc->dpc", weights.astype(np.float64), counts)
    low, high = np.percentile(_solve(pairs, drawn, versions), _INTERVAL, axis=0)
    return Fit(scores, low, high)


def chosen_over(score: float) -> float:
    """The share of decided answers that a version wins against the one whose score is 0."""
    return float(1 / (1 + np.exp(-score)))


def _solve(pairs: Sequence[tuple[int, int]], counts: Counts, versions: int) -> Counts:
    """Scores of shape (draws, versions) from counts of shape (draws, pairs, 3)."""
    design = _design(pairs, versions)
    values = np.zeros((len(counts), versions + 1))
    prior = np.eye(versions + 1) / PRIOR_DEVIATION**2
    totals = counts.sum(axis=-1)
    for _ in range(_ROUNDS):
        logits = np.einsum("pcx,dx->dpc", design, values)
        share = np.exp(logits - logits.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        slope = np.einsum("pcx,dpc->dx", design, counts - totals[..., None] * share)
        slope -= values @ prior
        mean = np.einsum("pcx,dpc->dpx", design, share)
        spread = np.einsum("pcx,pcy,dpc,dp->dxy", design, design, share, totals)
        spread -= np.einsum("dpx,dpy,dp->dxy", mean, mean, totals)
        step = np.linalg.solve(spread + prior, slope[..., None])[..., 0]
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        values += step
        if np.abs(step).max() < 1e-9:
            break
    return values[:, :versions] - values[:, :1]


def _design(pairs: Sequence[tuple[int, int]], versions: int) -> NDArray[np.float64]:
    """Shape (pairs, 3, versions + 1): logits of the three answers, linear in log p and log v."""
    design = np.zeros((len(pairs), 3, versions + 1))
    for row, (first, second) in zip(design, pairs, strict=True):
        row[0, first] = row[1, second] = 0.5
        row[0, second] = row[1, first] = -0.5
        row[2, -1] = 1.0
    return design
