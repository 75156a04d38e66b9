"""SVT-AV1 and x265 at half and a quarter of the frame rate, interpolated by DIS or by RIFE."""

from abc import ABC
from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import ClassVar

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.datasets.clips import ClipFormat
from gsvc.datasets.models import RIFE, model_path
from gsvc.eval.codecs.base import Compute, Settings
from gsvc.eval.codecs.frame_rates import LowerFrameRate, Usual, read_rate
from gsvc.eval.codecs.interpolation import by_dis, by_rife, rife
from gsvc.eval.codecs.svtav1 import SvtAv1
from gsvc.eval.codecs.x265 import X265
from gsvc.eval.compute import Flops, count_flops
from gsvc.eval.facts import CodecFacts

_OUTSIDE = ("decoding of the codec", "looking up pixels along the motion")
_AV1: Usual = {
    "1/2": {"preset": "4-vq", "crf": (70, 60)},
    "1/4": {"preset": "4-vq", "crf": (66, 54)},
}
_HEVC: Usual = {"1/2": {"crf": (46, 40)}, "1/4": {"crf": (42, 36)}}


class _ByDis(LowerFrameRate, ABC):
    def interpolation(self) -> str:
        """See `LowerFrameRate.interpolation`."""
        return "DIS"

    def between(self, left: Picture, right: Picture, step: int) -> Iterator[Picture]:
        """See `LowerFrameRate.between`."""
        return by_dis(left, right, step)


class _ByRife(LowerFrameRate, ABC):
    def interpolation(self) -> str:
        """See `LowerFrameRate.interpolation`."""
        rife()
        return f"RIFE {RIFE.sha256[:8]}"

    def between(self, left: Picture, right: Picture, step: int) -> Iterator[Picture]:
        """See `LowerFrameRate.between`."""
        return by_rife(left, right, step)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """The network's, once for each frame that is not coded, cuts included."""
        step, _ = read_rate(settings)
        one = _rife_flops(clip.height, clip.width)
        drawn = clip.frames - ceil(clip.frames / step)
        pixels = clip.width * clip.height * clip.frames
        weights = model_path(RIFE.name).stat().st_size
        return Compute(one.count * drawn / pixels, weights, (*_OUTSIDE, *one.not_counted))


@cache
def _rife_flops(height: int, width: int) -> Flops:
    gray = np.full((height, width, 3), 128, np.uint8)
    return count_flops(lambda: rife().motion(gray, gray, 0.5))


class SvtAv1Dis(_ByDis):
    """SVT-AV1, frames between by DIS."""

    name = "svtav1+dis"
    suffix = SvtAv1.suffix
    facts = CodecFacts(family=SvtAv1.facts.family, colour="#6aa5e8", marker="d")
    plain = SvtAv1
    usual: ClassVar[Usual] = _AV1


class SvtAv1Rife(_ByRife):
    """SVT-AV1, frames between by RIFE."""

    name = "svtav1+rife"
    suffix = SvtAv1.suffix
    facts = CodecFacts(family=SvtAv1.facts.family, colour="#1b4f94", marker="d")
    plain = SvtAv1
    usual: ClassVar[Usual] = _AV1


class X265Dis(_ByDis):
    """x265, frames between by DIS."""

    name = "x265+dis"
    suffix = X265.suffix
    facts = CodecFacts(colour="#7cc19a", marker="s")
    plain = X265
    usual: ClassVar[Usual] = _HEVC


class X265Rife(_ByRife):
    """x265, frames between by RIFE."""

    name = "x265+rife"
    suffix = X265.suffix
    facts = CodecFacts(colour="#1d5c3b", marker="s")
    plain = X265
    usual: ClassVar[Usual] = _HEVC


CODECS = (SvtAv1Dis, SvtAv1Rife, X265Dis, X265Rife)
