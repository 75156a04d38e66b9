"""The scaffold of an interval. It holds integers only, so that it is exact on every machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from gsvc.codec.scaffold.layer import Layer, Value
from gsvc.codec.scaffold.place import Place

Values = Mapping[Layer[Any], Any]
"""Values by layer; a layer that is off or has nothing to say is absent or None."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The scaffold at one frame. `sample[LAYER]` is the layer's value, None where it has none."""

    offset: int
    """Frames after the coded picture before it."""
    values: Values = field(default_factory=dict)

    def __getitem__(self, layer: Layer[Value]) -> Value | None:
        found: Value | None = self.values.get(layer)
        return found

    def having(self, layer: Layer[Value], value: Value | None) -> Self:
        """The sample with another value of one layer."""
        return replace(self, values={**self.values, layer: value})


@dataclass(frozen=True, eq=False)
class Interval:
    """The frames from one coded picture to the next, which ends them, and what a packet says of them.

    `interval[LAYER]` is the value of a layer that describes all frames or the picture at their end.
    """

    ticks: tuple[int, ...]
    """Of each frame, in order: its distance in time from the frame before, in units of the time base."""
    samples: tuple[Sample, ...] = ()
    """In order of `offset`; the last may lie on the coded picture itself."""
    values: Values = field(default_factory=dict)
    place: Place = Place.BETWEEN
    """AFTER: no coded picture ends the interval, and it has no samples."""
    dissolves: bool = False
    """Frames BETWEEN are both coded pictures, unmoved, the one fading into the other."""

    def __getitem__(self, layer: Layer[Value]) -> Value | None:
        found: Value | None = self.values.get(layer)
        return found

    @property
    def length(self) -> int:
        """Number of frames, the coded picture included."""
        return len(self.ticks)

    @property
    def closing_sample(self) -> Sample | None:
        """The sample on the coded picture, seen from the next interval (offset 0), if there is one."""
        if self.samples and self.samples[-1].offset == self.length:
            return replace(self.samples[-1], offset=0)
        return None
