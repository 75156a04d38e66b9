"""SVT-AV1 and x265 at half and a quarter of the frame rate, interpolated by DIS or by RIFE."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import ClassVar

from gsvc.codec.bitstream import errors, scaffold
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import RIFE
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.decoders.interpolation.optical_flow import dense_flow, gray, trust
from gsvc.decoders.interpolation.rendering import IntervalRenderer
from gsvc.decoders.interpolation.rife import RifePair, loaded_rife
from gsvc.eval.baselines import base, conventional, gsvc
from gsvc.eval.baselines.base import Compute, Decoded, Encoded, Option, Settings
from gsvc.eval.baselines.svtav1 import SvtAv1
from gsvc.eval.late_loading import CodecFacts

Between = Callable[[Picture, Picture, int], Iterator[Picture]]
"""From two RGB uint8 pictures `step` frames apart to the step - 1 frames between them."""

_LEAST_AGREEMENT = 0.25
"""Of motion there and back: on development clips, frames of different scenes have below 0.05, four
frames apart in the fastest pan 0.47."""


def filled(coded: Sequence[Picture], step: int, count: int, between: Between) -> list[Picture]:
    """`count` frames, of which each `step`-th is coded; those after the last coded one hold it."""
    frames = [coded[0]]
    for left, right in pairwise(coded):
        if is_cut(left, right):  # the nearer in time
            frames += [left] * (step // 2) + [right] * (step - step // 2)
        else:
            frames += [*between(left, right, step), right]
    return frames + frames[-1:] * (count - len(frames))


def is_cut(left: Picture, right: Picture) -> bool:
    """Whether motion there and motion back contradict each other nearly everywhere."""
    before, after = gray(left), gray(right)
    agreement = trust(dense_flow(before, after), dense_flow(after, before))
    return float(agreement.mean()) < _LEAST_AGREEMENT


_PROTOCOL = 2
"""Part of every version: raise it when a change to the interpolation alters output."""
Usual = Mapping[str, Mapping[str, Option]]


class LowerFrameRate(base.Codec):
    """Every second or fourth frame by a conventional codec, the others drawn between by DIS.

    Settings: those of the codec, and `rate`: coded frames relative to all, as a fraction.

    The constructor takes the same names, each with one value or several; `rate` alone gives the
    rate points that a benchmark runs at this rate.
    """

    plain: ClassVar[type[conventional.ConventionalCodec]]
    usual: ClassVar[Usual]
    """Rate -> the options of the codec that a benchmark runs, at full size."""

    def __init__(self, rate: Option | None = None, **options: Option) -> None:
        self._codecs = {}
        for one in self.usual if rate is None else map(str, base.several(rate)):
            read_rate({"rate": one})
            self._codecs[one] = self.plain(**{"scale": "1", **self.usual.get(one, {}), **options})

    def interpolation(self) -> str:
        """What interpolates, with its version. Raises MissingModelError without it."""
        return "DIS"

    def between(self, left: Picture, right: Picture, step: int) -> Iterator[Picture]:
        """The step - 1 frames between two: both moved by DIS, as our decoder does by itself."""
        renderer = IntervalRenderer(left, right, scaffold.Interval((1,) * step), None)
        for offset in range(1, step):
            yield renderer.picture(offset)

    def version(self) -> str:
        """See `Codec.version`. Raises as the codec's own, and as `interpolation`."""
        return f"{self.plain().version()}, {self.interpolation()}, protocol {_PROTOCOL}"

    def rate_points(self) -> Sequence[Settings]:
        return [
            {**point, "rate": rate}
            for rate, codec in self._codecs.items()
            for point in codec.rate_points()
        ]

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        """Code every n-th frame, at the frame rate that these have. Raises as the codec's own."""
        base.require_frames(clip)
        step, rest = read_rate(settings)
        coded = TestClip(clip.name, clip.frames[::step], clip.frame_rate / step)
        return self.plain().encode(coded, rest)

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode, and draw the frames between. Raises as the codec's own."""
        step, rest = read_rate(settings)
        count, rate = ceil(clip.frame_count / step), clip.frame_rate / step
        coded = replace(clip, frame_rate=rate, frame_count=count)
        decoded = self.plain().decode(data, coded, rest, way)
        start = time.perf_counter()
        frames = filled(decoded.frames, step, clip.frame_count, self.between)
        return Decoded(frames, decoded.seconds + time.perf_counter() - start)


def read_rate(settings: Settings) -> tuple[int, Settings]:
    """One frame in how many is coded, and the other settings. Raises ConfigError."""
    rest = dict(settings)
    try:
        rate = Fraction(rest.pop("rate"))
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise errors.ConfigError("a frame rate to code at is missing: write rate=1/2") from error
    if rate.numerator != 1:
        raise errors.ConfigError(f"rate {rate}: code one frame in so many, as 1/2 or 1/4")
    return rate.denominator, rest


class _ByRife(LowerFrameRate):
    def interpolation(self) -> str:
        loaded_rife()
        return f"RIFE {RIFE.sha256[:8]}"

    def between(self, left: Picture, right: Picture, step: int) -> Iterator[Picture]:
        """The same by RIFE. Raises as `load_rife`."""
        pair = RifePair(loaded_rife(), left, right)
        for offset in range(1, step):
            yield pair.motion(offset / step).drawn(left, right)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """The network's, once for each frame that is not coded, cuts included."""
        step, _ = read_rate(settings)
        drawn = clip.frame_count - ceil(clip.frame_count / step)
        return gsvc.drawing_cost(clip.height, clip.width, drawn, clip.frame_count)


class SvtAv1Dis(LowerFrameRate):
    """SVT-AV1, frames between by DIS."""

    name = "svtav1+dis"
    suffix = SvtAv1.suffix
    facts = CodecFacts(family=SvtAv1.facts.family, colour="#6aa5e8", marker="d")
    plain = SvtAv1
    usual: ClassVar[Usual] = {
        "1/2": {"preset": "4-vq", "crf": (70, 60)},
        "1/4": {"preset": "4-vq", "crf": (66, 54)},
    }


class SvtAv1Rife(_ByRife, SvtAv1Dis):
    """SVT-AV1, frames between by RIFE."""

    name = "svtav1+rife"
    facts = CodecFacts(family=SvtAv1.facts.family, colour="#1b4f94", marker="d")


class X265Dis(LowerFrameRate):
    """x265, frames between by DIS."""

    name = "x265+dis"
    suffix = conventional.X265.suffix
    facts = CodecFacts(colour="#7cc19a", marker="s")
    plain = conventional.X265
    usual: ClassVar[Usual] = {"1/2": {"crf": (46, 40)}, "1/4": {"crf": (42, 36)}}


class X265Rife(_ByRife, X265Dis):
    """x265, frames between by RIFE."""

    name = "x265+rife"
    facts = CodecFacts(colour="#1d5c3b", marker="s")


CODECS = (SvtAv1Dis, SvtAv1Rife, X265Dis, X265Rife)
