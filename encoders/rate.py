"""Rate: the quality and size of each group's key pictures that bring the stream near a target."""

from collections.abc import Callable, Sequence

from gsvc.codec.levels import Level
from gsvc.codec.scaffold import Geometry
from gsvc.encoders.pictures import can_code

_MOST_CRF = 63
_LEAST_CRF = 20
_HALF = 4  # eighths
_SCAFFOLD_SHARE = 0.15  # of the rate, until the first group has told

Encode = Callable[[int, int], Sequence[bytes]]


class RateControl:
    """Chooses crf and size group by group; what a group over- or underspends, later ones make up for."""

    def __init__(self, level: Level, target_bpp: float | None, geometry: Geometry) -> None:
        self._level = level
        self._pixels = geometry.width * geometry.height
        self._smallest = _HALF if can_code(geometry.coded_size(_HALF)) else 8
        self._target = target_bpp
        self._debt = 0.0
        self._budget = 0.0
        self._pictures = 0
        self._share = _SCAFFOLD_SHARE

    def encode(self, frames: int, encode: Encode) -> tuple[int, int, Sequence[bytes]]:
        """Code a group of `frames` frames; `encode(crf, eighths)` gives its temporal units.

        Returns crf, eighths and the units. Without a target these are the level's.
        """
        crf, eighths = self._level.crf, max(self._level.eighths, self._smallest)
        if self._target is None:
            return crf, eighths, encode(crf, eighths)
        self._budget = self._target * self._pixels * frames / 8
        goal = max(0.3 * self._budget, self._budget - self._debt) * (1 - self._share)
        units = encode(_MOST_CRF, eighths)
        if _size(units) > goal and eighths > self._smallest:
            eighths = self._smallest
            units = encode(_MOST_CRF, eighths)
        crf = _MOST_CRF
        # Size falls with crf: bisect, and keep the trial nearest to the goal.
        low, high = _LEAST_CRF, _MOST_CRF
        too_large = _size(units) > goal
        while high - low > 1 and not too_large:
            middle = (low + high) // 2
            trial = encode(middle, eighths)
            if abs(_size(trial) - goal) < abs(_size(units) - goal):
                crf, units = middle, trial
            low, high = (middle, high) if _size(trial) > goal else (low, middle)
        self._pictures = _size(units)
        return crf, eighths, units

    def spent(self, size: int) -> None:
        """Tell what the group took in all, in bytes."""
        if self._target is not None:
            self._debt += size - self._budget
            self._share = 0.5 * self._share + 0.5 * (1 - self._pictures / max(1, size))


def _size(units: Sequence[bytes]) -> int:
    return sum(map(len, units))
