"""The pace of a live decoder: networks are used where a packet's frames still come in time.

Frames may take a share of the time that they are shown for, less what their packet waited; what a
packet leaves, up to half a second's, the next ones may take.
Hysteresis keeps the picture from changing to and fro: what there was no time for is left out for a
while, twice as long each time it comes back too early.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass
class _Work:
    """One kind of work."""

    cost: float | None = None
    """Seconds that it took last, for one picture or interval; None: not known."""
    pace: float = 1.0
    """What plain decoding took then, in proportion to the time shown."""
    is_warm: bool = False
    """Whether it was done before: the first time takes longer than any other."""
    is_on: bool = True
    hold: float = _SHORTEST
    since: float = float("-inf")
    """When it was last switched."""
    granted: int = 0
    spent: float = 0.0


class LivePace:
    """See `Pace`. `begins` and `ends` frame each packet; its methods run in one thread.

    `granted` and `refused` count what was asked for; `switches`, how often work was switched.
    """

    def __init__(self, load: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`load`: the share of the time that decoding may take, above 0."""
        self.granted = self.refused = self.switches = 0
        self._load, self._clock = load, clock
        self._works = {REFINING: _Work(), MOTION: _Work()}
        self._took = self._shown = self._seconds = 0.0
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
        fits = self._needs(kind) <= self._room
        if fits != kind.is_on:
            self._switch(kind, on=fits)
        if not (kind.is_on and fits):
            self.refused += 1
            kind.cost = kind.cost and _FORGOTTEN * kind.cost
            return False
        self._room -= self._needs(kind)
        self.granted += 1
        kind.granted += 1
        return True

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
        return min(_MOST_PICTURES, max(0.0, spare / max(1e-6, self._needs(self._works[REFINING]))))

    @property
    def _plain(self) -> float:
        """What plain decoding takes, in proportion to the time shown."""
        return self._took / max(1e-3, self._shown)

    def _needs(self, kind: _Work) -> float:
        """Seconds: what it took last, slower where all has become slower since."""
        if kind.cost is None:
            return 0.0  # one is tried
        safe = _SAFE if kind.is_on else _AGAIN
        return safe * kind.cost * max(0.1, self._plain / kind.pace)

    def _switch(self, kind: _Work, *, on: bool) -> None:
        now = self._clock()
        if on and now - kind.since < kind.hold:
            return
        if not on:
            relapsed = now - kind.since < 4 * kind.hold
            kind.hold = min(_LONGEST, 2 * kind.hold) if relapsed else _SHORTEST
        kind.is_on, kind.since = on, now
        self.switches += 1
