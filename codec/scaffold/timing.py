"""Frame times: a constant frame rate in a coarse time base is predicted exactly.

A source at 30000/1001 frames a second in a time base of milliseconds has frames 33, 33, 34, ...
ticks apart. `FrameClock` keeps the range in which the last frame's unrounded time lies, given all
timestamps since the group began, and so predicts the rounding of the next timestamp.
"""

from fractions import Fraction
from math import floor


class FrameClock:
    """Predicts the ticks from one frame to the next, from those before.

    All integers. With frames N / D ticks apart, bounds are multiples of 1 / 2D tick; the unit is
    half of that, so that a guess fits between any two bounds.
    """

    def __init__(self, frame_ticks: Fraction) -> None:
        self._step: int = 4 * frame_ticks.numerator
        self._half: int = 2 * frame_ticks.denominator
        self._low, self._guess, self._high = -self._half, 0, self._half

    def predict(self) -> int:
        """The predicted ticks to the next frame, at least 1."""
        return max(1, (self._step + self._guess + self._half) // (2 * self._half))

    def advance(self, ticks: int) -> None:
        """Go on to the next frame, `ticks` after the last one."""
        late = self._step - ticks * 2 * self._half
        self._low = max(self._low + late, -self._half)
        self._high = min(self._high + late, self._half)
        if self._low >= self._high:  # Another rate: start again at this timestamp.
            self._low, self._guess, self._high = -self._half, 0, self._half
        else:
            self._guess = min(max(self._guess + late, self._low + 1), self._high - 1)


def nominal_time(frame: int, frame_ticks: Fraction) -> int:
    """The time of frame `frame` at the nominal rate, in ticks, halves rounded up."""
    return floor(frame * frame_ticks + Fraction(1, 2))
