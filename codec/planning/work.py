"""What encoding a video's content takes, from its trial: what the time of a preset is linear in."""

from math import log

import numpy as np

from gsvc.codec.planning.quality import seen_at
from gsvc.codec.planning.trial import Trial
from gsvc.encoders.tuning import LEVELS

_FEW_KEYS = 0.03
"""Added to coded pictures in a frame: of none at all, search and drawing still take time."""


def work(trial: Trial, bpp: float, unit: float) -> list[float]:
    """Of encoding to a rate, what the logarithm of its time in units of `unit` is linear in.

    `unit`: seconds per pixel of a frame that preset fast takes of a profile's video.
    """
    seconds = float(np.mean([point.seconds for point in trial.points]))
    return seen_work(seconds / unit, seen_at(trial, "keys", bpp), bpp)


def seen_work(times: float, keys: float, bpp: float) -> list[float]:
    """1; the logarithm of the trial's time in units; that of its coded pictures in a frame; and
    that of the rate in bits per pixel."""
    return [1.0, log(max(times, 1e-3)), log(keys + _FEW_KEYS), log(bpp)]


def level_for(bpp: float) -> int:
    """That the encoder chooses for a rate; see `EncoderSettings.chosen_level`."""
    return sum(bpp > level.usual_bpp for level in LEVELS)
