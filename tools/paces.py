"""A decoder that gets hot: is a frame late, how much is refined, how often does that change?

`python tools/paces.py`: the pace of `gsvc recv --load` in virtual time, beside a
decoder that always refines, one that never does, and one without hysteresis. Costs are given, not
measured: a coded picture every .4 s, 40 % of the time for plain frames and 30 % for the refiner,
while the machine is cool; 1.45 or 2 times that for 20 s of each minute, and 15 % noise: at 1.45
refining fits in one packet and not in the next. "Following, 4 steps": the refiner takes as long in
four steps, and may take two or one.
"""

import sys
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from gsvc.codec.network.live_decoder import LivePace
from gsvc.decoders.streams.reconstruction import REFINING
from gsvc.eval.layout import markdown

_SECONDS, _PLAIN, _REFINE = 0.4, 0.16, 0.12
_ALLOWED = 0.3
"""Seconds that a packet's frames may be late: what a player has buffered."""
_STEPPED, _STEPS = "following, 4 steps", 4
RULES = "never", "always", "what fitted last", "following", _STEPPED


@dataclass(frozen=True)
class Heated:
    """What came of a rule."""

    late: float
    """Share of packets whose frames were late."""
    refined: float
    """Share of coded pictures that were refined, in any number of steps."""
    steps: float
    """Share of all steps that was taken."""
    switches: int
    """How often that changed."""


def heated(rule: str, seconds: float, hot: float = 2.0, *, whole: bool = True) -> Heated:
    """Decode packets in virtual time by one of `RULES`; `hot`: how much slower a hot machine is.

    Not `whole`: only refining is slower, as where another program takes the GPU.
    """
    rng, now, late, refined = np.random.default_rng(0), 0.0, 0, list[float]()
    steps = _STEPS if rule == _STEPPED else 1
    pace, last = LivePace(1.0, lambda: now, steps), 0.0
    for number in range(round(seconds / _SECONDS)):
        due = number * _SECONDS
        now = max(now, due)
        noise, now_slow = rng.uniform(0.85, 1.15), hot if 30 <= due % 60 < 50 else 1.0
        slow = now_slow * noise
        pace.begins(now - due, _SECONDS)
        asked = pace.may(REFINING)
        does = {"never": False, "always": True, "what fitted last": now - due + last <= _SECONDS}
        share = float(does.get(rule, asked)) * pace.steps(steps) / steps
        plain, extra = (slow if whole else noise) * _PLAIN, slow * _REFINE * share
        if share:
            pace.took(REFINING, extra)
        pace.ends(plain + extra)
        last = plain + slow * _REFINE
        now += plain + extra
        late += now > due + _SECONDS + _ALLOWED
        refined.append(share)
    changes = sum(a != b for a, b in pairwise(refined))
    some = float(np.mean([share > 0 for share in refined]))
    return Heated(late / len(refined), some, float(np.mean(refined)), changes)


def main() -> int:
    """Show the table: ten minutes each."""
    rows = []
    for (hot, whole), rule in product(((1.45, True), (2.0, True), (4.0, False)), RULES):
        found = heated(rule, 600.0, hot, whole=whole)
        slow = f"{hot:g}" if whole else f"{hot:g}, refining alone"
        rows.append(
            [
                slow,
                rule,
                f"{100 * found.late:.1f} %",
                f"{100 * found.refined:.0f} %",
                f"{100 * found.steps:.0f} %",
                f"{found.switches / 10:.1f}",
            ]
        )
    header = ["packets late", "pictures refined", "steps taken", "changes a minute"]
    print(markdown(["times slower", "refines", *header], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
