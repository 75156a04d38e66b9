"""The slideshow test: which metrics prefer held key pictures to a video that moves.

A metric is fit for a headline only if `hold` loses to AV1 by it, at equal quality, on the clips
that move. One that fails steers an encoder towards slideshows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsvc.eval.summary.bd_rate import BdRate
from gsvc.eval.summary.bootstrap import Pooled, pooled_rate
from gsvc.eval.summary.curves import Curve, Point
from gsvc.eval.summary.duels import Duel
from gsvc.eval.summary.headline import HEADLINE_ANCHOR

SLIDESHOW = "hold"
_MOVES = 0.01
"""The share of moving pixels from which a clip moves."""


@dataclass(frozen=True)
class SlideshowClip:
    """The slideshow against AV1 on one clip in one metric."""

    clip: str
    moves: bool
    rate: float | None
    """BD-rate in per cent; None: see `note`."""
    wins: bool | None
    """Whether the slideshow needs fewer bits; where no quality is shared, whether it is better at
    equal bits. None where it cannot be told.
    """
    note: str


@dataclass(frozen=True)
class SlideshowTest:
    """The verdict on one metric."""

    metric: str
    passes: bool | None
    """Whether the slideshow loses on the clips that move: pooled, or else on every one of them.

    None where none of them can tell.
    """
    pooled: Pooled | None
    """BD-rates of the clips that move; None where none has one."""
    clips: list[SlideshowClip]

    @property
    def won(self) -> list[str]:
        """The clips on which the slideshow wins."""
        return [one.clip for one in self.clips if one.wins]


def slideshow_tests(
    duels: Sequence[Duel], found: Mapping[str, Sequence[Curve]], moving: Mapping[str, float]
) -> list[SlideshowTest]:
    """One for each metric in which the run has the slideshow and AV1.

    `found`: the curves of `duels` by metric; `moving`: the share of moving pixels by clip; a clip
    that is not in it counts as moving.
    """
    tests: dict[str, list[SlideshowClip]] = {}
    for duel in duels:
        if (duel.test, duel.anchor) == (SLIDESHOW, HEADLINE_ANCHOR):
            moves = moving.get(duel.clip, 1.0) >= _MOVES
            mine = {curve.name: curve for curve in found[duel.metric] if curve.clip == duel.clip}
            wins = _wins(duel.result, mine[SLIDESHOW].points, mine[HEADLINE_ANCHOR].points)
            one = SlideshowClip(duel.clip, moves, duel.result.pchip, wins, duel.result.note)
            tests.setdefault(duel.metric, []).append(one)
    return [_test(metric, clips) for metric, clips in tests.items()]


def _test(metric: str, clips: list[SlideshowClip]) -> SlideshowTest:
    pooled = pooled_rate([one.rate for one in clips if one.moves and one.rate is not None])
    won = [one.wins for one in clips if one.moves and one.wins is not None]
    passes = pooled.mean > 0 if pooled else not any(won) if won else None
    return SlideshowTest(metric, passes, pooled, clips)


def _wins(result: BdRate, held: Sequence[Point], coded: Sequence[Point]) -> bool | None:
    """`held`, `coded`: the slideshow's and AV1's points by rising rate."""
    if result.pchip is not None:
        return result.pchip < 0
    ends = result.ratio
    if ends is None:
        return None
    if ends.test_distance == ends.anchor_distance:
        return ends.ratio < 1
    # One is better than the other at all of its rates: some of these must be the other's too.
    if ends.test_distance < ends.anchor_distance:
        return True if held[0].bpp <= coded[-1].bpp else None
    return False if held[-1].bpp >= coded[0].bpp else None
