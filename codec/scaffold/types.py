"""The scaffold of an interval: integers only, so that it is the same on every machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gsvc.codec.scaffold.layer import Layer, Value
from gsvc.codec.scaffold.place import Place

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
