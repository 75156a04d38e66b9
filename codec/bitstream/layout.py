"""The layout of a packet: how many frames each of its intervals has, where they lie, and when.

It stands first in a packet, so that an index reads nothing else.

A constant frame rate in a coarse time base is predicted exactly. A source at 30000/1001 frames a
second in a time base of milliseconds has frames 33, 33, 34, ... ticks apart. `FrameClock` keeps the
range in which the last frame's unrounded time lies, given all timestamps since the group began. So
it predicts how the next timestamp is rounded.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Protocol

from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.bitstream.scaffold import Place


class FrameClock:
    """Predicts the ticks from one frame to the next, from those before.

    All integers. With frames N / D ticks apart, bounds are multiples of 1 / 2D tick; the unit is
    half of that, so that a guess fits between any two bounds.
    """

    def __init__(self, frame_ticks: Fraction) -> None:
        self._step: int = 4 * frame_ticks.numerator
        self._half: int = 2 * frame_ticks.denominator
        self._low, self._guess, self._high = -self._half, 0, self._half

    def predict(self) -> int:
        """The predicted ticks to the next frame, at least 1."""
        return max(1, (self._step + self._guess + self._half) // (2 * self._half))

    def advance(self, ticks: int) -> None:
        """Go on to the next frame, `ticks` after the last one."""
        late = self._step - ticks * 2 * self._half
        self._low = max(self._low + late, -self._half)
        self._high = min(self._high + late, self._half)
        if self._low >= self._high:  # Another rate: start again at this timestamp.
            self._low, self._guess, self._high = -self._half, 0, self._half
        else:
            self._guess = min(max(self._guess + late, self._low + 1), self._high - 1)


def nominal_time(frame: int, frame_ticks: Fraction) -> int:
    """The time of frame `frame` at the nominal rate, in ticks, halves rounded up."""
    return floor(frame * frame_ticks + Fraction(1, 2))


_SAME = Element("interval.same", "timing", FLAG)
_LENGTH = Element("interval.length", "timing", UNSIGNED, 2047)
_HELD = Element("interval.held", "timing", FLAG)
_AFTER = Element("interval.after", "timing", FLAG)
_IRREGULAR = Element("timing.irregular", "timing", FLAG)
MOST_TICKS = 1 << 30
"""From one frame to the next."""
_DEVIATION = Element("timing.deviation", "timing", SIGNED, MOST_TICKS)
LAYOUT_ELEMENTS = _SAME, _LENGTH, _HELD, _AFTER, _IRREGULAR, _DEVIATION
"""Every syntax element of the layout."""


class HasLayout(Protocol):
    """What is laid out: a `FrameSpan`, or the interval that has it."""

    @property
    def place(self) -> Place: ...

    @property
    def ticks(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class FrameSpan:
    """The frames of one interval."""

    place: Place
    """Where they lie."""
    ticks: tuple[int, ...]
    """Time from the frame before, in units of the time base, of each frame in order."""

    @property
    def length(self) -> int:
        """Number of frames."""
        return len(self.ticks)

    @property
    def has_picture(self) -> bool:
        """Whether a coded picture ends it."""
        return self.place is not Place.AFTER


class LayoutCoder:
    """Codes the layouts of one group's packets, in order, with `coder`."""

    def __init__(self, coder: Coder, frame_ticks: Fraction, *, holds: bool) -> None:
        """`frame_ticks` and `holds` as in the header."""
        self._coder, self._holds = coder, holds
        self._clock = FrameClock(frame_ticks)
        self.forget()

    def forget(self) -> None:
        """Predict no length from the packets before."""
        self._length = 1

    def code(
        self, frames: int, wanted: Sequence[HasLayout] | None, *, opens_group: bool
    ) -> tuple[FrameSpan, ...]:
        """The layout of a packet that completes `frames` frames, from 1 on.

        Raises ConfigError for one that cannot be stored, BitstreamError for invalid bytes.
        """
        lengths = self._code_lengths(frames, wanted)
        places = self._code_places(lengths, wanted, opens_group)
        given = None if wanted is None else tuple(tick for one in wanted for tick in one.ticks)
        ticks = code_ticks(self._coder, self._clock, frames, given)
        ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
        return tuple(
            FrameSpan(place, ticks[end - length : end])
            for place, length, end in zip(places, lengths, ends, strict=True)
        )

    def _code_lengths(self, frames: int, wanted: Sequence[HasLayout] | None) -> list[int]:
        """Each is that of the interval before, or coded; the packet's frames end them."""
        given = iter(()) if wanted is None else iter([len(one.ticks) for one in wanted])
        lengths: list[int] = []
        while left := frames - sum(lengths):
            value = next(given, None)
            if left > 1:
                self._length = self._code_length(left, value)
            else:
                self._length = 1
            lengths.append(self._length)
        return lengths

    def _code_length(self, left: int, length: int | None) -> int:
        if self._length <= left:
            same = None if length is None else int(length == self._length)
            if self._coder.code(_SAME, same):
                return self._length
        length = 1 + self._coder.code(_LENGTH, None if length is None else length - 1)
        if length > left:
            raise LimitError("an interval has more frames than its packet: the stream is damaged")
        return length

    def _code_places(
        self, lengths: Sequence[int], wanted: Sequence[HasLayout] | None, opens_group: bool
    ) -> list[Place]:
        places = [Place.BETWEEN] * len(lengths)
        if opens_group and self._holds and lengths[0] > 1:
            held = None if wanted is None else int(wanted[0].place is Place.BEFORE)
            if self._coder.code(_HELD, held):
                places[0] = Place.BEFORE
        if self._holds and not (opens_group and len(lengths) == 1):
            after = None if wanted is None else int(wanted[-1].place is Place.AFTER)
            if self._coder.code(_AFTER, after):
                places[-1] = Place.AFTER
        if wanted is not None and places != [one.place for one in wanted]:
            raise ConfigError("frames cannot be held here")
        return places


def code_ticks(
    coder: Coder, clock: FrameClock, frames: int, given: tuple[int, ...] | None
) -> tuple[int, ...]:
    """The time from the frame before of each of some frames, predicted by a clock."""
    irregular = None if given is None else int(given != _steady(clock, frames))
    is_irregular = coder.code(_IRREGULAR, irregular)
    ticks = []
    for n in range(frames):
        tick = clock.predict()
        if is_irregular:
            tick += coder.code(_DEVIATION, None if given is None else given[n] - tick)
        if tick < 1:
            raise BitstreamError("frame times do not rise: the stream is damaged")
        clock.advance(tick)
        ticks.append(tick)
    return tuple(ticks)


def _steady(clock: FrameClock, length: int) -> tuple[int, ...]:
    """The ticks of the next `length` frames where the clock predicts each exactly."""
    clock, ticks = copy(clock), []
    for _ in range(length):
        ticks.append(clock.predict())
        clock.advance(ticks[-1])
    return tuple(ticks)
