"""Congestion control: what a network carries, by a receiver's reports, and what to send over it.

The estimate is that of Google congestion control (Carlucci et al., *Analysis and design of the
Google congestion control for WebRTC*, MMSys 2016; draft-ietf-rmcat-gcc-02), which knows loss and
delay, at the one report a second of RTCP. The encoder follows it by steps: a new rate may cost an
intra picture, and a viewer sees it.

`InFlight` knows how long the next packet would wait: what was sent a round trip before a report and
had not arrived was waiting. The rate at which a queue empties is what the network carries, as in
BBR (Cardwell et al., *BBR: congestion-based congestion control*, ACM Queue 14(5), 2016).
"""

from collections import deque
from dataclasses import dataclass
from statistics import fmean

from gsvc.codec.bitstream.errors import ConfigError, typed
from gsvc.encoders.tuning import LEAST_BITRATE, LEVELS, PRESETS

_REST, _LONGEST_REST = 10.0, 160.0
"""Seconds for which it takes less; twice as long each time that it is late again soon after."""
_EFFECT = 5.0  # seconds until another preset shows: it begins with the next group


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
        is_rested = not self.is_tired(now) and now - self._rose >= self._rest
        if is_rested and self._step + 1 < len(self._names):
            self._rose, self._step = now, self._step + 1


_BACK, _GROWTH, _BEYOND = 0.85, 1.08, 2.0
"""Of what was received, after congestion; from report to report without; at most, of what was
received: more was never tried."""
_RECENT = 5.0
"""Seconds over which loss and what was received are averaged: of a few datagrams a second, one
that is lost is a fifth, and there is an intra picture every four seconds."""
_RETURN = 1.3
"""From report to report without congestion, below what the network carried before it: an outage
or a handover is over as suddenly as it came."""
_FEW, _MANY = 0.02, 0.1
"""Shares lost up to which there is room, and from which there is congestion."""
_SHORT, _LONG = 0.1, 0.3  # seconds of waiting on the way, the same
_LONGEST_PAUSE = 2.0
"""Seconds for which nothing is sent, at most, while what waits on the way gets through."""
_STALLED = 1.1
"""Seconds of pause where nothing arrives of what is under way: to the next report, about."""
_SILENCE, _HALVING = 3.0, 2.0
"""Seconds without a report until the rate falls, and until it has halved."""
_KEPT = 60.0  # seconds for which the shortest round trip is remembered
_LIMITED = 0.3
"""Of the estimate: who sends less has a calm video, and what came is not what the network carries:
the estimate falls by a factor alone."""
_TRUST = 0.5  # how far the estimate goes to a rate that was measured
_MARGIN = 0.7  # of the estimate that is used
_LESS, _MORE, _CALM = 0.95, 1.25, 4.0
"""Hysteresis: a rate falls at once where it falls by so much; it rises by so much at least, and
only where it has not moved for so many seconds."""
_BAND = 1.15  # hysteresis of levels: how far beyond its limit a rate has to be


@typed
@dataclass(frozen=True)
class Adaptation:
    """Bounds of a rate that follows the network. Raises ConfigError for impossible ones."""

    least: float = 3_000.0
    """Bits per second that are sent whatever the network does."""
    most: float = 100_000.0
    """Bits per second that are never exceeded."""

    def __post_init__(self) -> None:
        if not LEAST_BITRATE <= self.least < self.most < float("inf"):
            raise ConfigError(
                f"a rate cannot follow the network between {self.least:g} and {self.most:g} "
                f"bit/s: give the lower one first, {LEAST_BITRATE:g} at least"
            )


@dataclass(frozen=True)
class Reception:
    """What a receiver's report says of the time since the one before."""

    at: float
    """Seconds of the sender's monotonic clock."""
    bitrate: float
    """Bits per second that arrived, all headers included."""
    lost: float
    round_trip: float | None
    """Seconds; None where the report tells nothing new of it."""
    under_way: float = 0.0
    """Bits that were sent and that the report does not know of."""


@dataclass(frozen=True)
class EncoderOrder:
    """What the encoder is to do."""

    bitrate: float
    level: int
    """Whose spacing and multiplier it takes."""
    preset: str = "fast"


class CongestionController:
    """Decides what to send. `estimate`: bits per second that the network carries.

    `steps` counts the orders that changed. Times are seconds of any monotonic clock.
    """

    def __init__(
        self, bounds: Adaptation, start: float, pixel_rate: float, preset: str = "fast"
    ) -> None:
        """`start`: the first rate; `pixel_rate`: pixels a second of the video; `preset`: the
        encoder's own, which is never exceeded."""
        self._bounds, self._pixel_rate = bounds, pixel_rate
        self.estimate = start / _MARGIN
        self.limit: float | None = None
        """Bits per second that the receiver announced as its most."""
        self.pictures: float | None = None
        """Coded pictures a second that the receiver announced as its most."""
        self.tried = 0.0
        """Bits per second of the largest picture of late, sent at once."""
        self.steps = 0
        self._trips: list[tuple[float, float]] = []
        self._recent: list[Reception] = []
        self._heard: float | None = None
        self._is_congested, self._before = False, 0.0
        self._paused_until = float("-inf")
        self._moved = float("-inf")
        self._ladder = PresetLadder(preset)
        self._order = EncoderOrder(start, self._level(start, 1), preset)

    def report(self, seen: Reception, share: float, dropped: int = 0) -> None:
        """Take a report. `share`: of all bits sent, those of packets; `dropped`: frames that the
        encoder had no time for since the report before."""
        self._heard = seen.at
        waiting = self._waiting(seen)
        self._recent = [one for one in self._recent if seen.at - one.at < _RECENT] + [seen]
        share = min(1.0, max(0.1, share))
        lost = fmean(one.lost for one in self._recent)
        if not seen.bitrate and seen.under_way:
            self._paused_until = seen.at + _STALLED
        if lost > _MANY or waiting > _LONG:
            drained = max(0.3, 1 - max(0.0, waiting - _LONG))
            if not self._is_congested:
                self._before = _BACK * max(self.estimate, self._before)
            came = max(one.bitrate for one in self._recent[-2:])
            if came < _LIMITED * self.estimate * (1 - seen.lost):  # it had little to send
                came = self.estimate
            self.estimate = min(self.estimate, _BACK * came * drained)
            self._is_congested = True
            # Until what is under way beyond the usual has got through.
            excess = max(0.0, seen.under_way - came * (self.shortest_trip or 0.0))
            self._paused_until = seen.at + min(_LONGEST_PAUSE, excess / max(1.0, came))
        elif lost <= _FEW and waiting <= _SHORT and seen.round_trip is not None:
            growth = _RETURN if self.estimate < self._before else _GROWTH
            tried = _BEYOND * max(self.tried, fmean(one.bitrate for one in self._recent))
            grown = min(growth * self.estimate, max(self.estimate, tried))
            self.estimate, self._is_congested = grown, False
        low, high = self._bounds.least, self._bounds.most / share / _MARGIN
        self.estimate = min(high, max(low, self.estimate))
        (self._ladder.late if dropped else self._ladder.rested)(seen.at)
        self._steer(seen.at, share)

    def carried(self, rate: float) -> None:
        """A queue emptied at `rate` bits per second: that much the network carries."""
        low, high = self._bounds.least, self._bounds.most / _MARGIN
        self.estimate += _TRUST * (min(high, max(low, _BACK * rate)) - self.estimate)

    def of_packets(self, rate: float, share: float) -> float:
        """Bits per second that packets have of `rate`, after headers: of these come as many as of
        late, in larger packets too. `share`: of all bits sent, those of packets."""
        came = fmean(one.bitrate for one in self._recent) if self._recent else rate
        return rate - (1 - share) * min(rate, came)

    @property
    def shortest_trip(self) -> float | None:
        """Seconds of the shortest round trip of the last minute."""
        return min((trip for _, trip in self._trips), default=None)

    def is_paused(self, now: float) -> bool:
        """Whether to send nothing: what waits on the way would only make it later."""
        return now < self._paused_until

    def order(self, now: float) -> EncoderOrder:
        """What to do now. Without reports there is less and less: the network may be gone."""
        if self._heard is not None and now - self._heard > _SILENCE:
            self._heard += _HALVING
            self.estimate = max(self._bounds.least, self.estimate / 2)
            self._steer(now, 1.0)
        return self._order

    def _waiting(self, seen: Reception) -> float:
        """Seconds that datagrams wait on the way, beyond the shortest round trip."""
        if seen.round_trip is None:
            return 0.0
        self._trips = [(at, t) for at, t in self._trips if seen.at - at < _KEPT]
        self._trips.append((seen.at, seen.round_trip))
        return seen.round_trip - min(trip for _, trip in self._trips)

    def _steer(self, now: float, share: float) -> None:
        carried = min(_MARGIN * self.estimate, self.limit or float("inf"))
        wanted = min(self._bounds.most, max(self._bounds.least, self.of_packets(carried, share)))
        old, is_calm = self._order.bitrate, now - self._moved >= _CALM
        if not (wanted <= _LESS * old or (is_calm and wanted >= _MORE * old)):
            wanted = old
        level = min(self._level(wanted, self._order.level), self._able(self._order.level))
        if self._ladder.is_tired(now):
            level = max(0, min(level, self._order.level - 1))
        order = EncoderOrder(wanted, level, self._ladder.preset)
        if order != self._order:
            self._order, self._moved = order, now
            self.steps += 1

    def _able(self, old: int) -> int:
        """The highest level whose pictures the receiver has time for; near a limit it stays."""
        most = float("inf") if self.pictures is None else self.pictures
        fits = [(1.0 if n <= old else _BAND) / one.spacing <= most for n, one in enumerate(LEVELS)]
        return max((number for number, is_able in enumerate(fits) if is_able), default=0)

    def _level(self, bitrate: float, old: int) -> int:
        """The level for a rate; near a limit between two it stays."""
        bpp, level = bitrate / self._pixel_rate, old
        while level + 1 < len(LEVELS) and bpp > _BAND * LEVELS[level].usual_bpp:
            level += 1
        while level and bpp < LEVELS[level - 1].usual_bpp / _BAND:
            level -= 1
        return level


_UNKNOWN_TRIP = 0.2  # seconds of a round trip before any was measured
_SURE, _SURE_BITS = 0.3, 4_000
"""Seconds and bits of a queue that empties, from which its rate is known."""
_REPORTS = 1.3
"""Seconds within which a report comes, if anything does: later, nothing is taken to arrive."""
_GONE = 3.0  # seconds without a report from which nothing is known
_OF_LATE = 5.0  # seconds for which a burst counts
_REMEMBERED = 4096  # sendings


class InFlight:
    """Of one sender and one receiver. Times are seconds of one clock, amounts bits with headers."""

    def __init__(self) -> None:
        self.trip = _UNKNOWN_TRIP
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
        found = None
        if self._queued <= 0:
            self._busy = self._rate = None
        elif self._busy is None or self._left - self._sent[0][0] < _SURE:
            self._busy = now, self._arrived  # what is late by less is no queue, but jitter
        else:  # a queue was there at an earlier report, and is there still
            since, before = self._busy
            if now - since >= _SURE and self._arrived - before >= _SURE_BITS:
                found = self._rate = (self._arrived - before) / (now - since)
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

    @property
    def _queued(self) -> float:
        """Bits that waited when the last report's news was sent."""
        totals = [total for when, total in self._sent if when <= self._left]
        return totals[-1] - self._arrived if totals else 0.0
