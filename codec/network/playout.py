"""When frames are due at a receiver: the sender's pace, behind by as much as packets usually are."""

from collections import deque
from fractions import Fraction
from math import floor

_PACKETS, _FEWEST = 32, 3
_SLACK = 0.1


class PlayoutClock:
    """Follows the packets of one stream; times are in seconds of any steady clock, `pts` in units of `time_base`.

    A frame is due when its packet would have come, were it as late as the latest of the last 32 and had it to wait for
    `patience` seconds more.
    """

    def __init__(self, time_base: Fraction, patience: float) -> None:
        self._time_base = float(time_base)
        self._patience = patience + _SLACK
        self._lags: deque[float] = deque(maxlen=_PACKETS)

    def arrived(self, pts: int, duration: int | None, now: float) -> None:
        """A packet came, whose frames lie in the `duration` up to `pts`; one of unknown duration tells nothing."""
        if duration is not None:
            self._lags.append(now - (pts - duration) * self._time_base)

    def due(self, now: float) -> int | None:
        """The pts that is due now; None as long as it is not known how late packets are."""
        if len(self._lags) < _FEWEST:
            return None
        return floor((now - max(self._lags) - self._patience) / self._time_base)
