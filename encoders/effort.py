"""Presets: how much time the encoder takes."""

from dataclasses import dataclass

_USUAL_FRAMES = 100


@dataclass(frozen=True)
class Effort:
    """`trials`: plans tried for a group, about; `samples`: frames of a group of up to 100 that distortion is measured
    on; `svt`: preset 0-13 of SVT-AV1 for the key pictures that are sent; `anchors`: at most so many an interval."""

    trials: int
    samples: int
    svt: int
    anchors: int

    def trials_of(self, begins: bool) -> int:
        """Plans tried for a group that `begins` a scene, or for one that goes on: the plan before it is a good one."""
        return self.trials if begins else max(2, self.trials // 2)

    def samples_of(self, frames: int) -> int:
        """How many frames of a group of `frames` distortion is measured on."""
        return round(self.samples * max(1.0, frames / _USUAL_FRAMES))


PRESETS = {
    "fast": Effort(trials=2, samples=6, svt=8, anchors=1),
    "medium": Effort(trials=8, samples=8, svt=4, anchors=1),
    "slow": Effort(trials=32, samples=20, svt=2, anchors=3),
}
DEFAULT_PRESET = "medium"
