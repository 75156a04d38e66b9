"""Conventional codecs at a fraction of the frame rate, the frames between interpolated.

What a user with a recent player would put together: no bits are spent on every second frame, or on
three of four, and motion that the decoder finds draws them.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import ClassVar

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import ClipFormat, TestClip
from gsvc.eval.codecs.base import Codec, Decoded, Encoded, Settings, require_frames
from gsvc.eval.codecs.conventional import ConventionalCodec
from gsvc.eval.codecs.interpolation import filled
from gsvc.eval.codecs.options import Option, several

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
