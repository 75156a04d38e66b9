"""Presentation times: the source's own, repaired until they increase."""

from fractions import Fraction

FINEST_TIME_BASE = Fraction(1, 90_000)
"""Finer ticks are rounded to this: they cost bits and show nothing."""


class Clock:
    """Turns a source's timestamps into strictly increasing ones, in units of `time_base`.

    Good timestamps are kept exactly; a missing, repeated or backward one becomes the time at which
    the frame is due at the nominal rate.
    """

    def __init__(self, time_base: Fraction, frame_rate: Fraction) -> None:
        self.time_base = max(time_base, FINEST_TIME_BASE)
        self._scale = time_base / self.time_base
        self._interval = 1 / (frame_rate * self.time_base)
        self._due = Fraction(0)
        self._last: int | None = None

    def stamp(self, pts: int | None) -> int:
        """The time of the next frame; `pts` is the source's timestamp, None without one."""
        value = None if pts is None else round(pts * self._scale)
        if value is None or (self._last is not None and value <= self._last):
            value = self._next_due()
        else:
            self._due = Fraction(value)
        self._due += self._interval
        self._last = value
        return value

    def _next_due(self) -> int:
        value = round(self._due)
        return value if self._last is None else max(value, self._last + 1)
