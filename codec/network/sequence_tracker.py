"""What a receiver knows of the sequence numbers: loss, jitter, duplicates, and what to ask for again.

RFC 3550, sections 6.4.1 and A.1 to A.8. Memory is bounded, whatever numbers arrive.
"""

from dataclasses import dataclass

from gsvc.codec.network.rtcp import ReportBlock
from gsvc.codec.network.rtp import CLOCK_RATE, RtpPacket, unwrap

_WINDOW = 512
"""Missing datagrams that are remembered. One further away counts only when the next one follows it."""
_MAX_JUMP = 3000
"""Numbers further apart than this are no loss but another beginning (RFC 3550, MAX_DROPOUT)."""
_REORDERED = 16
"""How far before the first datagram to arrive one may have been sent."""
_FIRST_ASK, _NEXT_ASK, _ASKS = 0.01, 0.1, 3
"""Seconds from a gap to asking for it (reordering fills many), seconds to asking again, and how often."""
_LAST_ASK = 2.0
"""Seconds from a gap after which nobody waits for it any more."""
_OUTAGE = 10.0
"""Seconds without a datagram after which sequence numbers may have gone all around: none says that one came before."""


@dataclass
class _Absent:
    """A datagram that has not come: when that was seen, and when and how often it was asked for."""

    since: float
    asked: float = 0.0
    asks: int = 0


class SequenceTracker:
    """Follows one source. All counts are of datagrams; `now` is in seconds of any steady clock."""

    def __init__(self) -> None:
        self.received = self.duplicates = self.reordered = self.retransmitted = 0
        self._first = self._highest = -1
        self._follower = -1  # sequence number of the datagram that would bear out one far away
        self._absent: dict[int, _Absent] = {}
        self._jitter = 0.0
        self._transit: float | None = None
        self._heard = float("-inf")
        self._reported = 0, 0  # expected and received at the last report

    @property
    def expected(self) -> int:
        """How many were sent, as far as their numbers tell."""
        return self._highest - self._first + 1 if self._first >= 0 else 0

    @property
    def lost(self) -> int:
        """How many have not come, or not yet."""
        return max(0, self.expected - self.received)

    def arrived(self, packet: RtpPacket, now: float) -> bool:
        """Take note of a datagram; False if it came before."""
        number = unwrap(packet.sequence, max(self._highest, 0), 16)
        jump = number - self._highest
        is_around = jump <= 0 and now - self._heard > _OUTAGE
        is_far = self._first >= 0 and (is_around or abs(jump) > _WINDOW)
        if is_far and not self._is_borne_out(packet.sequence):
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
        elif gap.asks:
            self.retransmitted += 1
        else:
            self.reordered += 1
        self.received += 1
        self._follow_jitter(packet.timestamp, now)
        return True

    def to_ask_for(self, now: float) -> list[int]:
        """Sequence numbers (0-65535) to ask for now, oldest first; each is asked for a few times at most."""
        due = []
        for number, gap in self._absent.items():
            wait = now - (gap.asked if gap.asks else gap.since)
            is_wanted = gap.asks < _ASKS and now - gap.since <= _LAST_ASK
            if is_wanted and wait >= (_NEXT_ASK if gap.asks else _FIRST_ASK):
                gap.asks, gap.asked = gap.asks + 1, now
                due.append(number % (1 << 16))
        return due

    def report(self, source: int, last_report: int, delay: float) -> ReportBlock:
        """The report since the one before; `last_report` and `delay` (seconds) as in RFC 3550, LSR and DLSR."""
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

    def _is_borne_out(self, sequence: int) -> bool:
        """Whether a datagram far away follows the last such one: no single forged one moves the window (RFC 3550, A.1)."""
        expected, self._follower = self._follower, (sequence + 1) % (1 << 16)
        return sequence == expected

    def _miss(self, numbers: range, now: float) -> None:
        self._absent.update((number, _Absent(now)) for number in numbers)
        while len(self._absent) > _WINDOW:
            del self._absent[next(iter(self._absent))]

    def _begin(self, sequence: int) -> None:
        self._first = self._highest = sequence + (1 << 16)  # some may come from before it
        self.received = 0
        self._reported = 0, 0
        self._absent.clear()

    def _follow_jitter(self, timestamp: int, now: float) -> None:
        transit = now * CLOCK_RATE - timestamp
        if self._transit is not None:
            change = abs(transit - self._transit)
            if change < CLOCK_RATE * 60:  # else the time stamps have wrapped around
                self._jitter += (change - self._jitter) / 16
        self._transit = transit
