"""The pace of a live decoder: networks are used where a packet's frames still come in time.

Frames may take a share of the time that they are shown for, less what their packet waited; what a
packet leaves, up to half a second's, the next ones may take.
Where there is no time for all steps of a refiner, it takes fewer before it is left out. Hysteresis
keeps the picture from changing to and fro: what there was no time for is left out for a while,
twice as long each time it comes back too early.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gsvc.decoders.pace import MOTION, REFINING

_SAFE = 1.15
"""What work is taken to need, in proportion to what it took last."""
_AGAIN = 1.3
"""The same, where it was left out before."""
_FORGOTTEN = 0.99
"""What is kept of a cost each time that it was too high: it may have been so by chance."""
_SAVED = 0.5
"""Seconds shown whose time may be saved up: an intra picture may have a packet of one frame."""
_MEMORY = 0.7
"""Of what earlier packets took for plain decoding, at each packet."""
_MOST_PICTURES = 100.0
"""A second: more are not sent."""
_SHORTEST, _LONGEST = 2.0, 15.0
"""Seconds for which work is left out."""
_FEWER = 4, 2, 1
"""Steps that a refiner may take in place of more: its own loops are trained for these."""


@dataclass
class _Work:
    """One kind of work."""

    shares: tuple[float, ...] = (0.0, 1.0)
    """Of the whole work, rising: what may be done of it, from nothing to all."""
    cost: float | None = None
    """Seconds that all of it took last, for one picture or interval; None: not known."""
    pace: float = 1.0
    """What plain decoding took then, in proportion to the time shown."""
    is_warm: bool = False
    """Whether it was done before: the first time takes longer than any other."""
    now: int = -1
    """Which of the shares is done; at first all."""
    rose: float = float("-inf")
    """When more was done than before."""
    fell: list[float] = field(default_factory=list)
    """By share, when there was no time for it."""
    holds: list[float] = field(default_factory=list)
    """By share, seconds for which it is left out then."""
    granted: float = 0.0
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.now = len(self.shares) - 1
        self.fell = [float("-inf")] * len(self.shares)
        self.holds = [_SHORTEST] * len(self.shares)


class LivePace:
    """See `Pace`. `begins` and `ends` frame each packet; its methods run in one thread.

    `granted` and `refused` count what was asked for; `switches`, how often work was switched.
    """

    def __init__(
        self, load: float, clock: Callable[[], float] = time.monotonic, steps: int = 1
    ) -> None:
        """`load`: the share of the time that decoding may take, above 0; `steps`: of the refiner,
        at most."""
        self.granted = self.refused = self.switches = 0
        self._load, self._clock = load, clock
        fewer = sorted(count / steps for count in _FEWER if count < steps)
        self._works = {REFINING: _Work((0.0, *fewer, 1.0)), MOTION: _Work()}
        self._took = self._shown = self._seconds = 0.0
        self._share = 1.0
        self._room, self._credit = 0.0, load * _SAVED

    def begins(self, waited: float, seconds: float) -> None:
        """A packet is next, whose frames are shown for `seconds`; it has waited for `waited`."""
        self._seconds = seconds
        most = self._load * max(_SAVED, seconds)
        self._credit = min(most, self._credit + self._load * seconds)
        self._room = self._credit - waited - self._plain * seconds
        for work in self._works.values():
            work.granted, work.spent = 0, 0.0

    def may(self, work: str) -> bool:
        """See `Pace`."""
        kind = self._works[work]
        fits = max(n for n in range(len(kind.shares)) if not n or self._fits(kind, n))
        if fits != kind.now:
            self._switch(kind, fits)
        share = kind.shares[fits]
        if not share:
            kind.cost = kind.cost and _FORGOTTEN * kind.cost
            self.refused += 1
            return False
        self._room -= share * self._needs(kind, _SAFE)
        self.granted += 1
        kind.granted += share
        self._share = share
        return True

    def steps(self, most: int) -> int:
        """See `StepPace`."""
        return max(1, round(self._share * most))

    def took(self, work: str, seconds: float) -> None:
        """See `Pace`."""
        self._works[work].spent += seconds

    def ends(self, seconds: float) -> None:
        """The packet's frames are there; they took `seconds`."""
        extra = sum(work.spent for work in self._works.values())
        self._credit -= seconds
        self._took = _MEMORY * self._took + max(0.0, seconds - extra)
        self._shown = _MEMORY * self._shown + self._seconds
        for work in self._works.values():
            if work.granted and work.is_warm:
                work.cost, work.pace = work.spent / work.granted, max(1e-6, self._plain)
            work.is_warm |= work.granted > 0

    @property
    def pictures(self) -> float | None:
        """Coded pictures a second that there is time to restore, 0 to 100; None: not known yet.

        May be asked for in another thread."""
        cost = self._works[REFINING].cost
        if cost is None:
            return None
        spare = self._load - self._plain
        kind = self._works[REFINING]
        share, safe = kind.shares[max(1, kind.now)], _SAFE if kind.now else _AGAIN
        return min(_MOST_PICTURES, max(0.0, spare / max(1e-6, share * self._needs(kind, safe))))

    @property
    def _plain(self) -> float:
        """What plain decoding takes, in proportion to the time shown."""
        return self._took / max(1e-3, self._shown)

    def _fits(self, kind: _Work, number: int) -> bool:
        """Whether one of its shares may be done: there is time, and it is not left out."""
        is_more = number > kind.now
        if is_more and self._clock() - kind.fell[number] < kind.holds[number]:
            return False
        safe = _AGAIN if is_more else _SAFE
        return kind.shares[number] * self._needs(kind, safe) <= self._room

    def _needs(self, kind: _Work, safe: float) -> float:
        """Seconds for all of it: what it took last, slower where all has become slower since."""
        if kind.cost is None:
            return 0.0  # one is tried
        return safe * kind.cost * max(0.1, self._plain / kind.pace)

    def _switch(self, kind: _Work, number: int) -> None:
        now, before = self._clock(), kind.now
        if number > before:
            kind.rose = now
        else:
            hold = kind.holds[before]
            relapsed = now - kind.rose < 4 * hold
            kind.holds[before] = min(_LONGEST, 2 * hold) if relapsed else _SHORTEST
            kind.fell[number + 1 :] = [now] * (len(kind.shares) - number - 1)
        kind.now = number
        self.switches += 1
