"""Presets: how much time the encoder takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_USUAL_FRAMES = 100
_LOW_PRICE = 12.0
_CLOSE = 8
"""Frames from one key picture to the next below which coding them takes most of the time."""


@dataclass(frozen=True)
class Effort:
    """`trials`: plans tried for a group, about, where a bit must save little; `samples`: frames of a group of up to 100 that
    distortion is measured on; `svt`: preset 0-13 of SVT-AV1 for the key pictures that are sent; `anchors`: at most
    so many an interval."""

    trials: int
    samples: int
    svt: int
    anchors: int

    def trials_of(self, begins: bool, price: float) -> int:
        """Plans tried for a group that `begins` a scene, or for one that goes on: the plan before it is a good one.

        The higher the `price`, the rarer key pictures are, and the less time a trial takes.
        """
        trials = round(self.trials * min(3.0, max(1.0, math.sqrt(price / _LOW_PRICE))))
        return trials if begins else max(2, trials // 2)

    def preset_of(self, keys: Sequence[int]) -> int:
        """The preset for key pictures at these indices: one step faster where they are close."""
        is_close = keys[-1] - keys[0] < _CLOSE * (len(keys) - 1)
        return self.svt + is_close

    def samples_of(self, frames: int) -> int:
        """How many frames of a group of `frames` distortion is measured on."""
        return round(self.samples * max(1.0, frames / _USUAL_FRAMES))


PRESETS = {
    "fast": Effort(trials=2, samples=6, svt=8, anchors=1),
    "medium": Effort(trials=4, samples=8, svt=4, anchors=1),
    "slow": Effort(trials=32, samples=20, svt=2, anchors=3),
}
DEFAULT_PRESET = "medium"
