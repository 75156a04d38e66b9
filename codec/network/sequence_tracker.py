"""Sequence numbers at a receiver: loss, jitter, duplicates, and which datagrams to request again.

RFC 3550, sections 6.4.1 and A.1 to A.8. Memory is bounded, whatever numbers arrive.
"""

from dataclasses import dataclass

from gsvc.codec.network.rtcp import ReportBlock
from gsvc.codec.network.rtp import CLOCK_RATE, RtpPacket, unwrap

_WINDOW = 512
"""Missing datagrams that are remembered. A number further away needs its successor to count."""
_MAX_JUMP = 3000
"""A larger jump of numbers is a restart of the source, no loss (MAX_DROPOUT of RFC 3550)."""
_REORDERED = 16
"""How far before the first datagram that arrived another one is taken."""
_FIRST_NACK, _NEXT_NACK, _NACKS = 0.01, 0.1, 3
"""Seconds from a gap to its first NACK (reordering fills many), from one to the next; how many."""
_LAST_NACK = 2.0
"""Seconds from a gap after which nothing waits for it any more."""
_OUTAGE = 10.0
"""Seconds without a datagram after which sequence numbers may have wrapped around."""


@dataclass
class _Absent:
    """A missing datagram: when it was found missing, when and how often it was requested."""

    since: float
    requested: float = 0.0
    requests: int = 0


class SequenceTracker:
    """Tracks one source. Counts are of datagrams, `now` is in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.received = self.duplicates = self.reordered = self.retransmitted = 0
        self._first = self._highest = -1
        self._follower = -1  # sequence number that would confirm one far away
        self._absent: dict[int, _Absent] = {}
        self._jitter = 0.0
        self._transit: float | None = None
        self._heard = float("-inf")
        self._reported = 0, 0  # expected and received at the last report

    @property
    def expected(self) -> int:
        """Datagrams sent, as far as the numbers that came tell."""
        return self._highest - self._first + 1 if self._first >= 0 else 0

    @property
    def lost(self) -> int:
        """Datagrams that have not come yet."""
        return max(0, self.expected - self.received)

    def arrived(self, packet: RtpPacket, now: float) -> bool:
        """Note a datagram; False if it came before."""
        number = unwrap(packet.sequence, max(self._highest, 0), 16)
        jump = number - self._highest
        is_around = jump <= 0 and now - self._heard > _OUTAGE
        is_far = self._first >= 0 and (is_around or abs(jump) > _WINDOW)
        if is_far and not self._is_confirmed(packet.sequence):
            return True
        self._heard = now
        if self._first < 0 or is_around or not -_WINDOW <= jump <= _MAX_JUMP:
            self._begin(packet.sequence)
        elif jump > 0:
            self._miss(range(max(self._highest + 1, number - _WINDOW), number), now)
            self._highest = number
        elif self._first - _REORDERED <= number < self._first:
            self._miss(range(number + 1, self._first), now)
            self._first = number
        elif (gap := self._absent.pop(number, None)) is None:
            self.duplicates += 1
            return False
        elif gap.requests:
            self.retransmitted += 1
        else:
            self.reordered += 1
        self.received += 1
        self._follow_jitter(packet.timestamp, now)
        return True

    def to_nack(self, now: float) -> list[int]:
        """Sequence numbers (0-65535) to request now, oldest first; each a few times at most."""
        due = []
        for number, gap in self._absent.items():
            wait = now - (gap.requested if gap.requests else gap.since)
            is_wanted = gap.requests < _NACKS and now - gap.since <= _LAST_NACK
            if is_wanted and wait >= (_NEXT_NACK if gap.requests else _FIRST_NACK):
                gap.requests, gap.requested = gap.requests + 1, now
                due.append(number % (1 << 16))
        return due

    def report(self, source: int, last_report: int, delay: float) -> ReportBlock:
        """Report what came since the last report; `last_report` is LSR, `delay` DLSR in seconds."""
        expected, received = self.expected - self._reported[0], self.received - self._reported[1]
        self._reported = self.expected, self.received
        lost = max(0, expected - received)
        return ReportBlock(
            source=source,
            fraction_lost=min(255, 256 * lost // expected) if expected > 0 else 0,
            lost=min(self.lost, (1 << 23) - 1),
            highest=max(self._highest, 0) % (1 << 32),
            jitter=int(self._jitter) % (1 << 32),
            last_report=last_report,
            delay=min(int(65536 * delay), (1 << 32) - 1),
        )

    def _is_confirmed(self, sequence: int) -> bool:
        """Whether a far number follows the last one: a single forgery moves nothing (A.1)."""
        expected, self._follower = self._follower, (sequence + 1) % (1 << 16)
        return sequence == expected

    def _miss(self, numbers: range, now: float) -> None:
        self._absent.update((number, _Absent(now)) for number in numbers)
        while len(self._absent) > _WINDOW:
            del self._absent[next(iter(self._absent))]

    def _begin(self, sequence: int) -> None:
        self._first = self._highest = sequence + (1 << 16)  # leaves room for earlier ones
        self.received = 0
        self._reported = 0, 0
        self._absent.clear()

    def _follow_jitter(self, timestamp: int, now: float) -> None:
        transit = now * CLOCK_RATE - timestamp
        if self._transit is not None:
            change = abs(transit - self._transit)
            if change < CLOCK_RATE * 60:  # else the timestamps have wrapped around
                self._jitter += (change - self._jitter) / 16
        self._transit = transit
