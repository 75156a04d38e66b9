"""The scaffold of an interval: what a layer is, the values of the layers, the layout of frames.

On the wire the scaffold is all that the range coder codes of a packet: the layout of its frames,
the heads of its AV1 frames (`coded_pictures.py`), and the layers. Values are integers only, so that
the scaffold is the same on every machine. How to add a layer: docs/contributing.md.

The layout, how many frames each interval of a packet has, where they lie, and when, stands first in
a packet, so that an index reads nothing else. A constant frame rate in a coarse time base, such as
30000/1001 in milliseconds, is predicted exactly: `FrameClock` keeps the range in which the last
frame's unrounded time lies, given all timestamps since the group began.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from math import ceil, floor
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, LimitError

MAX_VECTOR = 1023
"""Largest magnitude of a motion vector's component, in motion units."""


@dataclass(frozen=True)
class Geometry:
    """Grids over a picture of `width` x `height` pixels."""

    width: int
    height: int

    @property
    def cell(self) -> int:
        """Side of a cell in pixels: 8 at 288 lines."""
        return max(8, round(min(self.width, self.height) / 36))

    @property
    def label_shape(self) -> tuple[int, int]:
        """(rows, columns) of the grid of cells."""
        return ceil(self.height / self.cell), ceil(self.width / self.cell)

    def block_shape(self, block_log2: int) -> tuple[int, int]:
        """(rows, columns) of the grid of blocks of 2^block_log2 by 2^block_log2 cells."""
        side = self.cell << block_log2
        return ceil(self.height / side), ceil(self.width / side)

    def coded_size(self, scale: int) -> tuple[int, int]:
        """(width, height) coded at `scale`, 1 to 8, eighths of the side, rounded up to even."""
        return 2 * ceil(self.width * scale / 16), 2 * ceil(self.height * scale / 16)

    @property
    def motion_unit(self) -> float:
        """Pixels in one motion unit, 1/8 of a cell: one pixel at 288 lines."""
        return self.cell / 8


class Place(Enum):
    """Where the frames of an interval lie relative to the coded pictures that they show."""

    BETWEEN = 0
    """Between two coded pictures; frames are drawn from both."""
    BEFORE = 1
    """Before the first coded picture of a scene; frames show it, moved with the camera."""
    AFTER = 2
    """After the last coded picture of a scene, likewise; the packet has no picture."""


Value = TypeVar("Value")


class Scope(Enum):
    """What one value of a layer describes; scopes are coded in this order."""

    INTERVAL = 0
    """All frames of an interval."""
    PICTURE = 1
    """The coded picture that ends an interval."""
    SAMPLE = 2
    """One frame."""


@dataclass(frozen=True)
class Site:
    """The interval that a value belongs to; the shapes of arrays follow from it."""

    geometry: Geometry
    place: Place
    length: int
    """Frames of the interval."""


@dataclass(frozen=True, eq=False)
class Layer(Generic[Value]):
    """One layer of the scaffold; a key of `Sample` and `Interval`."""

    name: str
    scope: Scope
    header_bit: int | None
    """Its place among the header's ten flags, counted from the highest; never reused. None: a group
    says whether it has the layer (`Coding.layers`)."""
    default: bool
    """Whether encoders send it at every preset; at the slowest they try all layers."""
    code: Callable[[Coder, Site, Value | None, Value | None], Value | None]
    """`code(coder, site, before, value)` codes a value and returns it. `before` is the previous
    value in the group; `value` is None for a reader. Raises ConfigError for a value that cannot be
    stored, BitstreamError for invalid bytes."""
    digest: Callable[[Value], bytes]
    """All integers of a value, for the scaffold's hash."""
    absent: bytes = b""
    """The same of an absent value: no bytes, so that a new layer leaves the hashes of older streams
    unchanged; the first layers give `ABSENT`."""

    def hashed(self, value: Value | None) -> bytes:
        """What the scaffold's hash takes of a value or of none."""
        return self.absent if value is None else self.digest(value)

    def bits(self, site: Site, before: Value | None, value: Value | None) -> float:
        """Bits of coding `value` under models that have learned nothing yet."""
        coder = Coder()
        self.code(coder, site, before, value)
        return coder.total


Integers = NDArray[np.integer] | NDArray[np.bool_]


def digest(*parts: int | Integers) -> bytes:
    """Bytes for `Layer.digest`: integers of 8 bytes, little-endian, those of an array after its
    number of dimensions and its shape."""
    whole = b""
    for part in parts:
        if isinstance(part, np.ndarray):
            whole += digest(part.ndim, *part.shape) + part.astype("<i8").tobytes()
        else:
            whole += int(part).to_bytes(8, "little", signed=True)
    return whole


ABSENT = digest(-1)
"""Digest of an absent value, in the layers of the first streams."""


Values = Mapping[Layer[Any], Any]
"""Values by layer; a layer that is off or sends nothing here is absent or None."""


class Valued:
    """Base of what holds values by layer: `it[LAYER]` is the layer's value, None where absent."""

    values: Values

    def __getitem__(self, layer: Layer[Value]) -> Value | None:
        found: Value | None = self.values.get(layer)
        return found


@dataclass(frozen=True, eq=False)
class Sample(Valued):
    """The scaffold at one frame."""

    offset: int
    """Frames since the coded picture before the interval."""
    values: Values = field(default_factory=dict)

    def having(self, layer: Layer[Value], value: Value | None) -> Self:
        """A copy with `value` for one layer."""
        return replace(self, values={**self.values, layer: value})


@dataclass(frozen=True, eq=False)
class Interval(Valued):
    """The frames after one coded picture up to and including the next, and their scaffold."""

    ticks: tuple[int, ...]
    """Time from the frame before, in units of the time base, of each frame in order."""
    samples: tuple[Sample, ...] = ()
    """Samples in order of `offset`; the last may lie on the coded picture at the end."""
    values: Values = field(default_factory=dict)
    """Values of the layers of scope INTERVAL and PICTURE."""
    place: Place = Place.BETWEEN
    """Where AFTER, no coded picture ends the interval and it has no samples."""
    dissolves: bool = False
    """Whether frames BETWEEN cross-fade from one coded picture to the other, without motion."""

    @property
    def length(self) -> int:
        """Number of frames, the coded picture included."""
        return len(self.ticks)

    @property
    def closing_sample(self) -> Sample | None:
        """The sample on the coded picture, with the offset 0 that it has in the next interval."""
        if self.samples and self.samples[-1].offset == self.length:
            return replace(self.samples[-1], offset=0)
        return None


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
"""Most ticks from one frame to the next."""
_DEVIATION = Element("timing.deviation", "timing", SIGNED, MOST_TICKS)
LAYOUT_ELEMENTS = _SAME, _LENGTH, _HELD, _AFTER, _IRREGULAR, _DEVIATION
"""Every syntax element of the layout."""


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


Layouts = Sequence[FrameSpan | Interval]
"""Place and ticks of frames."""


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
        self, frames: int, wanted: Layouts | None, *, opens_group: bool
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

    def _code_lengths(self, frames: int, wanted: Layouts | None) -> list[int]:
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
        self, lengths: Sequence[int], wanted: Layouts | None, opens_group: bool
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
