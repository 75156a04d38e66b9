"""Presets: how much time the encoder takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """`trials`: plans tried for a group of 100 frames; `samples`: how many of them distortion is measured on; `svt`: preset
    0-13 of SVT-AV1 for the key pictures that are sent; `anchors`: at most so many an interval."""

    trials: int
    samples: int
    svt: int
    anchors: int


PRESETS = {
    "fast": Effort(trials=6, samples=6, svt=8, anchors=1),
    "medium": Effort(trials=8, samples=10, svt=4, anchors=3),
    "slow": Effort(trials=32, samples=20, svt=2, anchors=3),
}
DEFAULT_PRESET = "medium"
