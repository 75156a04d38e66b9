"""What encoding a video's content takes, from its trial: what the time of a preset is linear in."""

from math import log

import numpy as np

from gsvc.codec.planning.quality import seen_at
from gsvc.codec.planning.trial import TRIAL_LEVELS, Trial
from gsvc.encoders.tuning import LEVELS

_FEW_KEYS = 0.03
"""Added to coded pictures in a frame: of none at all, search and drawing still take time."""
_FARTHEST = 1.0
"""Of rates, as a logarithm: from there the search makes as many trials as it may."""


def work(trial: Trial, bpp: float, unit: float) -> list[float]:
    """Of encoding to a rate, what the logarithm of its time in units of `unit` is linear in.

    `unit`: seconds per pixel of a frame that preset fast takes of a profile's video.
    """
    seconds = float(np.mean([point.seconds for point in trial.points]))
    return seen_work(seconds / unit, seen_at(trial, "keys", bpp), off_rate(trial, bpp))


def seen_work(times: float, keys: float, off: float) -> list[float]:
    """1; the logarithm of the trial's time in units; that of its coded pictures in a frame; and
    how far the rate is from its level's own, as of `off_rate`."""
    return [1.0, log(max(times, 1e-3)), log(keys + _FEW_KEYS), off]


def off_rate(trial: Trial, bpp: float) -> float:
    """How far a rate is from what its level takes by itself, as a logarithm, 0 to 1.

    The encoder's search begins with the level's multiplier, and makes more trials with others until
    the rate is met.
    """
    levels = [level.suited_to(trial.pixels, trial.rate).lmbda for level in LEVELS]
    tried = [log(levels[level]) for level in TRIAL_LEVELS]
    rates = [log(point.bpp) for point in trial.points]
    own = np.interp(log(levels[level_for(bpp)]), tried[::-1], rates[::-1])
    return min(_FARTHEST, abs(float(own) - log(bpp)))


def level_for(bpp: float) -> int:
    """That the encoder chooses for a rate; see `EncoderSettings.chosen_level`."""
    return sum(bpp > level.usual_bpp for level in LEVELS)
