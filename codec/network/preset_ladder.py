"""A weak encoder: late, it takes a faster preset, codes fewer pictures, and tries again later."""

from gsvc.encoders.tuning import PRESETS

_REST, _LONGEST_REST = 10.0, 160.0
"""Seconds for which it takes less; twice as long each time that it is late again soon after."""
_EFFECT = 5.0
"""Seconds until another preset shows: it begins with the next group."""


class PresetLadder:
    """Which preset an encoder has time for. Times are seconds of any monotonic clock."""

    def __init__(self, preset: str) -> None:
        """`preset`: its own, which is never exceeded."""
        names = list(PRESETS)
        self._names = names[: names.index(preset) + 1]
        self._step = len(self._names) - 1
        self._rest = _REST
        self._until = self._fell = self._rose = float("-inf")

    @property
    def preset(self) -> str:
        """To code with now."""
        return self._names[self._step]

    def is_tired(self, now: float) -> bool:
        """Whether it was late a short while ago."""
        return now < self._until

    def late(self, now: float) -> None:
        """It dropped frames."""
        if not self.is_tired(now):
            again = now - self._rose < 2 * self._rest
            self._rest = min(_LONGEST_REST, 2 * self._rest) if again else _REST
        if now - self._fell >= _EFFECT:
            self._fell, self._step = now, max(0, self._step - 1)
        self._until = now + self._rest

    def rested(self, now: float) -> None:
        """Nothing is late: after its rest it takes one preset more at a time."""
        if self.is_tired(now) or now - self._rose < self._rest:
            return
        if self._step + 1 < len(self._names):
            self._rose, self._step = now, self._step + 1
