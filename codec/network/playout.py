"""Playout at a receiver: when frames are due, and one timeline over successive streams."""

from collections import deque
from dataclasses import replace
from fractions import Fraction
from math import floor

from gsvc.codec.frames import Frame
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.stream.header import Header

_PACKETS, _FEWEST = 32, 3
_SLACK = 0.1


class PlayoutClock:
    """Estimates the playout delay from the packets of one stream.

    A frame is due when its packet would have arrived with the largest delay of the last 32 packets
    and then waited for `patience` seconds. Times are seconds of any monotonic clock, `pts` is in
    units of `time_base`.
    """

    def __init__(self, time_base: Fraction, patience: float) -> None:
        self._time_base = float(time_base)
        self._patience = patience + _SLACK
        self._delays: deque[float] = deque(maxlen=_PACKETS)

    def arrived(self, pts: int, duration: int | None, now: float) -> None:
        """Note a packet whose frames fill the `duration` up to `pts`. Ignored if that is None."""
        if duration is not None:
            self._delays.append(now - (pts - duration) * self._time_base)

    def due(self, now: float) -> int | None:
        """The pts that is due now; None until three packets have told their delay."""
        if len(self._delays) < _FEWEST:
            return None
        return floor((now - max(self._delays) - self._patience) / self._time_base)


class Timeline:
    """Shifts the times of each new stream so that they follow those of the stream before."""

    def __init__(self) -> None:
        self._stream = self._shift = self._last = 0
        self._shown_at: float | None = None
        self._tick = Fraction(0)

    @property
    def shift(self) -> tuple[int, Fraction]:
        """Number of the stream that is shown, and seconds by which its times are shifted."""
        return self._stream, self._shift * self._tick

    def placed(self, frame: Frame, stream: int, header: Header, now: float) -> Frame:
        """The frame, shown `now`, with its time on the timeline."""
        if stream != self._stream:
            self._stream, self._shift = stream, 0
            self._tick = header.format.time_base
            if self._shown_at is not None:
                gap = round((now - self._shown_at) / float(header.format.time_base))
                gap = max(nominal_time(1, header.frame_ticks), gap)
                self._shift = self._last + gap - frame.pts
        self._last, self._shown_at = frame.pts + self._shift, now
        return replace(frame, pts=self._last)
