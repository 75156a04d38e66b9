"""The scaffold of an interval: what a layer is, and the values of the layers.

On the wire the scaffold is all that the range coder codes of a packet: the layout of its frames
(`layout.py`), the heads of its AV1 frames (`coded_pictures.py`), and the layers.

Values are integers only, so that the scaffold is the same on every machine. To add a layer, write a
module in `gsvc.codec.bitstream.layers` and add it to `LAYERS` there. The header, `Tools`, the
ledger, the command line's switches and the scaffold's hash use that table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.entropy_coding import Coder, Element

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
        """(width, height) of pictures coded at `scale` / 8 of the display size, rounded up to even.

        `scale` is 1 to 8.
        """
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
    says whether it has the layer."""
    default: bool
    """Whether encoders send it at every preset; at the slowest they try all layers."""
    elements: tuple[Element, ...]
    code: Callable[[Coder, Site, Value | None, Value | None], Value | None]
    """`code(coder, site, before, value)` codes a value and returns it. `before` is the previous
    value in the group; `value` is None for a reader. Raises ConfigError for a value that cannot be
    stored, BitstreamError for invalid bytes."""
    digest: Callable[[Value | None], bytes]
    """All integers of a value, for the scaffold's hash. An absent value gives no bytes, so that a
    new layer leaves the hashes of older streams unchanged; the first layers give `ABSENT`."""

    def bits(self, site: Site, before: Value | None, value: Value | None) -> float:
        """What coding `value` takes under models that have learned nothing yet."""
        coder = Coder()
        self.code(coder, site, before, value)
        return coder.total


Integers = NDArray[np.int64] | NDArray[np.int16] | NDArray[np.uint8] | NDArray[np.bool_]


def digest_array(values: Integers) -> bytes:
    """An array for `Layer.digest`: its shape, then its integers."""
    shape = digest_integer(values.ndim) + b"".join(map(digest_integer, values.shape))
    return shape + values.astype("<i8").tobytes()


def digest_integer(value: int) -> bytes:
    """An integer for `Layer.digest`: 8 bytes, little-endian."""
    return value.to_bytes(8, "little", signed=True)


ABSENT = digest_integer(-1)
"""Digest of an absent value, in the layers of the first streams."""


Values = Mapping[Layer[Any], Any]
"""Values by layer; a layer that is off or sends nothing here is absent or None."""


class Valued:
    """What holds values by layer: `it[LAYER]` is the layer's value, None where it has none."""

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
    """In order of `offset`; the last may lie on the coded picture at the end."""
    values: Values = field(default_factory=dict)
    """Of the layers of scope INTERVAL and PICTURE."""
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
