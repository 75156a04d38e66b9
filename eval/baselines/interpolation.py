"""Codecs at a fraction of the frame rate: the frames between decoded ones are interpolated.

That is what a player can do with a lower frame rate, by DIS or by RIFE.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import ClassVar

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.scaffold import Interval
from gsvc.datasets.clips.clip import ClipFormat, TestClip
from gsvc.decoders.interpolation.optical_flow import dense_flow, gray, trust
from gsvc.decoders.interpolation.rendering import IntervalRenderer
from gsvc.decoders.interpolation.rife import loaded_rife
from gsvc.eval.baselines.base import (
    Codec,
    Decoded,
    Encoded,
    Option,
    Settings,
    require_frames,
    several,
)
from gsvc.eval.baselines.conventional import ConventionalCodec

Between = Callable[[Picture, Picture, int], Iterator[Picture]]
"""From two RGB uint8 pictures `step` frames apart to the step - 1 frames between them."""

_LEAST_AGREEMENT = 0.25
"""Of motion there and back: on development clips, frames of different scenes have below 0.05, four
frames apart in the fastest pan 0.47."""


def filled(coded: Sequence[Picture], step: int, count: int, between: Between) -> list[Picture]:
    """`count` frames of which every `step`-th, from the first, is coded.

    Frames after the last coded one hold it.
    """
    frames = [coded[0]]
    for left, right in pairwise(coded):
        draw = nearer if is_cut(left, right) else between
        frames += [*draw(left, right, step), right]
    return frames + frames[-1:] * (count - len(frames))


def is_cut(left: Picture, right: Picture) -> bool:
    """Whether motion there and motion back contradict each other nearly everywhere."""
    before, after = gray(left), gray(right)
    agreement = trust(dense_flow(before, after), dense_flow(after, before))
    return float(agreement.mean()) < _LEAST_AGREEMENT


def nearer(left: Picture, right: Picture, step: int) -> Iterator[Picture]:
    """Hold the picture that is nearer in time."""
    for offset in range(1, step):
        yield left if 2 * offset <= step else right


def by_dis(left: Picture, right: Picture, step: int) -> Iterator[Picture]:
    """Both pictures moved by DIS, as our own decoder does without a scaffold."""
    interval = Interval((1,) * step)
    renderer = IntervalRenderer(left, right, interval, None)
    for offset in range(1, step):
        yield renderer.picture(offset)


def by_rife(left: Picture, right: Picture, step: int) -> Iterator[Picture]:
    """By RIFE. Raises as `load_rife`."""
    pair = loaded_rife().pair(left, right)
    for offset in range(1, step):
        yield pair.motion(offset / step).drawn(left, right)


_PROTOCOL = 1
"""Part of every version: raise it when a change to the interpolation alters output."""
Usual = Mapping[str, Mapping[str, Option]]


class LowerFrameRate(Codec, ABC):
    """Every second or fourth frame by a conventional codec, the others drawn between them.

    Settings: those of the codec, and `rate`: coded frames relative to all, as a fraction.

    The constructor takes the same names, each with one value or several; `rate` alone gives the
    rate points that a benchmark runs at this rate.
    """

    plain: ClassVar[type[ConventionalCodec]]
    usual: ClassVar[Usual]
    """Rate -> the options of the codec that a benchmark runs, at full size."""

    def __init__(self, rate: Option | None = None, **options: Option) -> None:
        rates = self.usual if rate is None else tuple(map(str, several(rate)))
        self._codecs = {one: self._made(one, options) for one in rates}

    @abstractmethod
    def interpolation(self) -> str:
        """What interpolates, with its version. Raises MissingModelError without it."""

    @abstractmethod
    def between(self, left: Picture, right: Picture, step: int) -> Iterator[Picture]:
        """The step - 1 frames between two that are `step` apart."""

    def version(self) -> str:
        """See `Codec.version`. Raises as the codec's own, and as `interpolation`."""
        return f"{self.plain().version()}, {self.interpolation()}, protocol {_PROTOCOL}"

    def rate_points(self) -> Sequence[Settings]:
        """See `Codec.rate_points`."""
        return [
            {**point, "rate": rate}
            for rate, codec in self._codecs.items()
            for point in codec.rate_points()
        ]

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        """Code every n-th frame, at the frame rate that these have. Raises as the codec's own."""
        require_frames(clip)
        step, rest = read_rate(settings)
        coded = TestClip(clip.name, clip.frames[::step], clip.frame_rate / step)
        return self.plain().encode(coded, rest)

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode, and draw the frames between. Raises as the codec's own."""
        step, rest = read_rate(settings)
        coded = replace(clip, frame_rate=clip.frame_rate / step, frames=ceil(clip.frames / step))
        decoded = self.plain().decode(data, coded, rest, way)
        start = time.perf_counter()
        frames = filled(decoded.frames, step, clip.frames, self.between)
        return Decoded(frames, decoded.seconds + time.perf_counter() - start)

    def _made(self, rate: str, options: Mapping[str, Option]) -> ConventionalCodec:
        read_rate({"rate": rate})
        return self.plain(**{"scale": "1", **self.usual.get(rate, {}), **options})


def read_rate(settings: Settings) -> tuple[int, Settings]:
    """One frame in how many is coded, and the other settings. Raises ConfigError."""
    rest = dict(settings)
    try:
        rate = Fraction(rest.pop("rate"))
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise ConfigError("a frame rate to code at is missing: write rate=1/2") from error
    if rate.numerator != 1:
        raise ConfigError(f"rate {rate}: code one frame in so many, as 1/2 or 1/4")
    return rate.denominator, rest
