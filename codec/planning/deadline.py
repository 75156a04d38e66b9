"""A deadline: the time that plain decoding leaves goes to the groups that gain most from it.

Before each group, what is left of the time is spent anew by what was measured so far, the group of
the greatest gain for a second first. A picture that would end behind the deadline is not restored.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gsvc.codec.planning.spending import Group
from gsvc.decoders.pace import REFINING

_RESERVE = 1.1
"""What plain decoding is taken to need, in proportion to what it took so far."""
_ENDING = 0.02
"""Share of all time that is kept for the end: the file is written out."""
_SURE = 10
"""Frames after which what plain decoding took is believed."""
_USUAL = 0.3
"""How far each measurement moves what restoring is taken to need."""


@dataclass
class Costs:
    """Seconds, foretold at first, then as they come."""

    frame: float
    """Of a frame drawn plainly."""
    key: float
    """Of restoring a coded picture."""


class DeadlinePace:
    """The pace of a file that has to be decoded within `seconds` from now.

    `restored` counts the coded pictures that were.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        costs: Costs,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.restored = 0
        self._groups, self._costs, self._clock = groups, costs, clock
        self._began = clock()
        self._ends_at = self._began + (1 - _ENDING) * seconds
        self._firsts = [0, *accumulate(group.keys for group in groups)]
        self._seen = self._quota = 0
        self._spent = 0.0

    def may(self, work: str) -> bool:
        """See `Pace`. Coded pictures are asked for in order, each once."""
        if work != REFINING:
            return False
        number = self._group()
        if self._seen == self._firsts[number]:
            self._quota = self._share(number)
        left = self._left(number, self._seen - self._firsts[number])
        self._seen += 1
        if not self._quota or left < self._costs.key:
            return False
        self._quota -= 1
        return True

    def took(self, work: str, seconds: float) -> None:
        """See `Pace`."""
        assert work == REFINING
        self.restored += 1
        self._spent += seconds
        if self.restored > 1:  # the first one loads the network
            more = seconds > self._costs.key  # slower: believed at once
            self._costs.key += (1.0 if more else _USUAL) * (seconds - self._costs.key)

    def _group(self) -> int:
        """The number of the group that the next coded picture is of."""
        last = len(self._groups) - 1
        return next((n for n in range(last) if self._seen < self._firsts[n + 1]), last)

    def _left(self, number: int, within: int) -> float:
        """Seconds beside those of plain decoding, `within` pictures into a group."""
        now, group = self._clock(), self._groups[number]
        done = sum(one.frames for one in self._groups[:number])
        done += group.frames * within // max(1, group.keys)
        if done:
            plain = (now - self._began - self._spent) / done
            self._costs.frame = plain if done > _SURE else max(plain, self._costs.frame)
        frames = sum(one.frames for one in self._groups) - done
        return self._ends_at - now - _RESERVE * self._costs.frame * frames

    def _share(self, now: int) -> int:
        """How many pictures of the group `now` may be restored; those behind it compete."""
        left = self._left(now, 0)
        order = sorted(range(now, len(self._groups)), key=lambda n: -self._groups[n].worth)
        for number in order:
            able = _able(self._groups[number], self._costs.key, left)
            if number == now:
                return able
            left -= able * self._costs.key
        return 0


def restored_worth(groups: Sequence[Group], key: float, seconds: float) -> float:
    """What can be gained within `seconds`, in frames of usual gain; `key`: as of `Costs`."""
    gained = 0.0
    for group in sorted(groups, key=lambda group: -group.worth):
        able = _able(group, key, seconds)
        gained += group.worth * able
        seconds -= able * key
    return gained


def _able(group: Group, key: float, seconds: float) -> int:
    """How many of its pictures there is time for."""
    return min(group.keys, max(0, int(seconds / max(1e-9, key))))
