"""Fewer frames a second: which frames of a source to keep."""

from fractions import Fraction
from math import floor


class Thinning:
    """Keeps at most `rate` frames a second: the first one of every interval of 1/rate.

    Frames keep their own times, so that things are where they were at that time.
    """

    def __init__(self, rate: Fraction | None, source_rate: Fraction) -> None:
        """`rate` in frames a second, None for all of a source that has `source_rate`."""
        self._rate = rate
        # Times are rounded to a container's ticks.
        self._early = 1 / source_rate / 4
        self._last = -1

    def keeps(self, seconds: Fraction) -> bool:
        """Whether to keep the frame of this time after the first frame; ask in order."""
        if self._rate is None:
            return True
        interval = floor((seconds + self._early) * self._rate)
        keeps, self._last = interval > self._last, max(interval, self._last)
        return keeps
