"""SVT-AV1 and x265 at half and a quarter of the frame rate, interpolated by DIS or by RIFE."""

from abc import ABC
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import ClassVar

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import RIFE
from gsvc.datasets.clips.clip import ClipFormat
from gsvc.decoders.interpolation.rife import loaded_rife
from gsvc.eval.baselines.base import Compute, Settings
from gsvc.eval.baselines.gsvc import drawing_cost
from gsvc.eval.baselines.interpolation import LowerFrameRate, Usual, by_dis, by_rife, read_rate
from gsvc.eval.baselines.svtav1 import SvtAv1
from gsvc.eval.baselines.x265 import X265
from gsvc.eval.late_loading import CodecFacts

_OUTSIDE = "decoding of the codec"
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
        loaded_rife()
        return f"RIFE {RIFE.sha256[:8]}"

    def between(self, left: Picture, right: Picture, step: int) -> Iterator[Picture]:
        """See `LowerFrameRate.between`."""
        return by_rife(left, right, step)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """The network's, once for each frame that is not coded, cuts included."""
        step, _ = read_rate(settings)
        drawn = clip.frames - ceil(clip.frames / step)
        cost = drawing_cost(clip.height, clip.width, drawn, clip.frames)
        return replace(cost, not_counted=(_OUTSIDE, *cost.not_counted))


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
