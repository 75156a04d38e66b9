"""A layer of the scaffold: its value, the elements that code it, and its bit in the header.

To add a layer, write a module in `gsvc.codec.scaffold.layers` and add it to `LAYERS` there. The
header, `Tools`, the ledger, the command line's switches and the scaffold's hash use that table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.coder import Coder, Element
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.place import Place

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
