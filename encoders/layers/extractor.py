"""What extractors have in common: each takes one layer's values from the source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layer import Layer
from gsvc.codec.scaffold.types import Sample
from gsvc.encoders.anchor_trial import AnchorTrial


@dataclass(frozen=True)
class Observed:
    """The samples of an interval before anything moves."""

    middle: Sample | None
    """On the frame in the middle; None where the interval is too short for one."""
    end: Sample
    """On the coded picture."""


class Extractor(Protocol):
    """Takes the values of `layer` from the source. Made anew for each stream."""

    layer: Layer[Any]
    has_memory: bool
    """Whether what it finds in an interval depends on those before."""

    def begin_scene(self, picture: Picture, sample: Sample, *, watching: bool) -> Sample:
        """Begin a scene: `sample`, of its first coded picture, with the layer's value.

        `watching`: look at the picture; without it the value is empty.
        """
        ...

    def observe(self, sources: Sequence[Picture], found: Observed, *, watching: bool) -> Observed:
        """The samples of the next interval with the layer's values.

        `sources`: its frames, from the coded picture before it to the one that ends it.
        """
        ...

    def settle(self, trial: AnchorTrial, anchor: Sample) -> Any:
        """The value to put in every sample of the interval; None keeps the observed ones."""
        ...

    def improve(self, trial: AnchorTrial, anchor: Sample) -> Sample:
        """The sample at an anchor with the motion that pays for its bits; `anchor` if none does."""
        ...

    def says_something(self, sample: Sample) -> bool:
        """Whether the layer's value is worth a sample."""
        ...
