"""Frame times: a steady clock, seen through a coarse time base, is predicted without a bit.

A source at 30000/1001 frames a second in a file that counts milliseconds stamps its frames 33, 33, 34, ...
ticks apart. The clock below keeps the range of times that the last frame may truly have had, given all the
stamps since the group began, and so predicts the rounding of the next one.
"""

from fractions import Fraction
from math import floor


class FrameClock:
    """Predicts each frame's distance from the frame before, in ticks of the time base, from those before it.

    Integers only. With frames N / D ticks apart, bounds are multiples of 1 / 2D tick; everything is counted in
    half of that, so that a guess can lie between any two bounds.
    """

    def __init__(self, frame_ticks: Fraction) -> None:
        self._step: int = 4 * frame_ticks.numerator
        self._half: int = 2 * frame_ticks.denominator
        self._low, self._guess, self._high = -self._half, 0, self._half

    def predict(self) -> int:
        """The distance to expect next, at least 1."""
        return max(1, (self._step + self._guess + self._half) // (2 * self._half))

    def advance(self, ticks: int) -> None:
        """Learn what the distance was."""
        late = self._step - ticks * 2 * self._half
        self._low = max(self._low + late, -self._half)
        self._high = min(self._high + late, self._half)
        if (
            self._low >= self._high
        ):  # Not this rate: the last frame's true time is its stamp or near it.
            self._low, self._guess, self._high = -self._half, 0, self._half
        else:
            self._guess = min(max(self._guess + late, self._low + 1), self._high - 1)


def nominal_time(frame: int, frame_ticks: Fraction) -> int:
    """The time of frame number `frame` at the nominal rate, in ticks, halves rounded up."""
    return floor(frame * frame_ticks + Fraction(1, 2))
