"""What is under way to a receiver, and so for how long the next packet would wait.

Reports tell what had arrived when they left; what was sent a round trip before them and had not
arrived was waiting. From there on the queue is taken to empty at the rate that it emptied at last.
The rate at which a queue empties is what the network carries, as in BBR (Cardwell et al., *BBR:
congestion-based congestion control*, ACM Queue 14(5), 2016).
"""

from collections import deque

_UNKNOWN_TRIP = 0.2
"""Seconds of a round trip before any was measured."""
_SURE, _SURE_BITS = 0.3, 4_000
"""Seconds and bits of a queue that empties, from which its rate is known."""
_REPORTS = 1.3
"""Seconds within which a report comes, if anything does: later, nothing is taken to arrive."""
_GONE = 3.0
"""Seconds without a report from which nothing is known."""
_OF_LATE = 5.0
"""Seconds for which a burst counts."""
_REMEMBERED = 4096
"""Sendings that are remembered."""


class Flight:
    """Of one sender and one receiver. Times are seconds of one clock, amounts bits with headers."""

    def __init__(self) -> None:
        self.trip = _UNKNOWN_TRIP
        """Shortest round trip known."""
        self._sent: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        """When, and how much had been sent then in all: what has not arrived whole."""
        self._bursts: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        self._arrived = self._total = 0.0
        self._left = float("-inf")
        """When the last report's news was sent, about: a round trip before it came."""
        self._busy: tuple[float, float] | None = None
        self._rate: float | None = None

    def sent(self, now: float, total: float) -> None:
        """So much was sent in all."""
        if total > self._total:
            self._bursts.append((now, total - self._total))
            self._sent.append((now, total))
            self._total = total

    def burst(self, now: float, seconds: float) -> float:
        """Bits per second of the most that was sent at once of late, over `seconds` of sending."""
        while self._bursts and now - self._bursts[0][0] > _OF_LATE:
            self._bursts.popleft()
        return max((bits for _, bits in self._bursts), default=0.0) / seconds

    def told(self, now: float, arrived: float) -> float | None:
        """A report says how much arrived; gives what the network carries, where that shows."""
        self._left, self._arrived = now - self.trip, max(arrived, self._arrived)
        while self._sent and self._sent[0][1] <= self._arrived:
            self._sent.popleft()
        found = self._emptied(now)
        if self._queued <= 0:
            self._busy = self._rate = None
        elif self._busy is None:
            self._busy = now, self._arrived
        return found

    def waiting(self, now: float, rate: float) -> float:
        """Seconds for which the queue lasts, at the rate that it empties at, or else at `rate`.

        0 where nobody tells anything: no receiver is there yet, or another one has to be found.
        """
        if now - self._left - self.trip > _GONE:
            return 0.0
        rate = max(1.0, self._rate if self._rate is not None else rate)
        until = min(now, self._left + self.trip + _REPORTS)
        queue, at = self._queued, self._left
        before = self._arrived + queue
        for when, total in self._sent:
            if when > self._left:
                then = min(when, until)
                queue = max(0.0, queue - rate * max(0.0, then - at)) + total - before
                at, before = max(at, then), total
        return max(0.0, queue - rate * max(0.0, until - at)) / rate

    def _emptied(self, now: float) -> float | None:
        """What a queue emptied at that was there at an earlier report and is there still."""
        if self._busy is None:
            return None
        since, before = self._busy
        if now - since < _SURE or self._arrived - before < _SURE_BITS:
            return None
        self._busy = now, self._arrived
        if self._queued <= 0:
            return None
        self._rate = (self._arrived - before) / (now - since)
        return self._rate

    @property
    def _queued(self) -> float:
        """Bits that waited when the last report's news was sent."""
        totals = [total for when, total in self._sent if when <= self._left]
        return totals[-1] - self._arrived if totals else 0.0
