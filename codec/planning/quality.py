"""Quality at a rate: what the trial saw there, and lines fitted to development clips."""

from collections.abc import Mapping
from math import exp, hypot, log
from typing import Any, NamedTuple

import numpy as np

from gsvc.codec.planning.trial import Trial
from gsvc.codec.planning.ways import Way


class Range(NamedTuple):
    """A prediction, and the ends of the interval that holds 90 % of what was measured."""

    low: float
    mean: float
    high: float

    def scaled(self, factor: float) -> "Range":
        """Each end times `factor`."""
        return Range(*(factor * value for value in self))


class Quality:
    """Foretells both judges for one video."""

    def __init__(self, trial: Trial, fitted: Mapping[str, Any]) -> None:
        """`fitted`: as of `gsvc.codec.planning.model.shipped`."""
        self._trial, self._fit = trial, fitted
        self.is_judged = all(point.jod is not None for point in trial.points)
        """Whether CVVDP is measured in the trial, not foretold from likeness alone."""

    def jod(self, bpp: float, preset: str, way: Way) -> Range:
        """ColorVideoVDP at so many bits per pixel, in JOD."""
        line = self._fit["jod_of_trial" if self.is_judged else "jod"]
        seen = seen_at(self._trial, "jod" if self.is_judged else "likeness", bpp)
        mean = line["offset"] + line["slope"] * seen + self._change("jod", preset, way)
        apart = self._trial.jod_apart
        if not self.is_judged:
            apart = line["slope"] * self._trial.likeness_apart
        error = hypot(line["error"], apart)
        return Range(*(min(10.0, mean + one) for one in (-error, 0.0, error)))

    def texture(self, bpp: float, preset: str, way: Way) -> Range:
        """ST-LPIPS VGG, from 0, lower is better."""
        line, seen = self._fit["texture"], seen_at(self._trial, "likeness", bpp)
        mean = line["offset"] + line["slope"] * seen + line["rate"] * log(bpp)
        mean += self._change("texture", preset, way)
        error = hypot(line["error"], line["slope"] * self._trial.likeness_apart)
        return Range(*(exp(mean + one) for one in (-error, 0.0, error)))

    def _change(self, quality: str, preset: str, way: Way) -> float:
        """By a way to decode and by a preset, beside plain decoding and preset medium."""
        changes = self._fit["ways"][way.name], self._fit["presets"][preset]
        return float(sum(change[quality] for change in changes))


def seen_at(trial: Trial, name: str, bpp: float) -> float:
    """What a trial saw, between its points; quality does not fall as the rate rises.

    `name`: of a field of `gsvc.codec.planning.trial.Point`.
    """
    logs = np.log([point.bpp for point in trial.points])
    values = [getattr(point, name) for point in trial.points]
    if name in ("jod", "likeness"):
        values = list(np.maximum.accumulate(values))
    return float(np.interp(log(bpp), logs, values))
