"""What extractors have in common: each takes one layer's values from the source."""

from collections.abc import Sequence
from typing import Any

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Layer
from gsvc.codec.scaffold.types import Sample
from gsvc.encoders.anchor_trial import AnchorTrial
from gsvc.encoders.tuning import Level


class Extractor:
    """Takes the values of `layer` from the source. Made anew for each stream.

    A layer overrides the steps it takes part in: unless it does, a step changes nothing.
    """

    layer: Layer[Any]
    has_memory = False
    """Whether what it finds in an interval depends on those before."""

    def __init__(self, geometry: Geometry, level: Level) -> None:
        self._geometry, self._level = geometry, level

    def observe(
        self, sources: Sequence[Picture], samples: list[Sample], *, watching: bool
    ) -> list[Sample]:
        """The samples of the next interval with the layer's values, before anything moves.

        `sources`: the frames of the interval, from the coded picture before it to the one that ends
        it, or the first coded picture of a scene alone. `samples`: one on the last frame, after one
        in the middle where the interval is long enough. `watching`: look at the frames; without it
        the values are empty.
        """
        return samples

    def settle(self, trial: AnchorTrial, samples: list[Sample]) -> list[Sample]:
        """The samples of the interval with what pays at the anchor, before the anchor is moved."""
        return samples

    def improve(self, trial: AnchorTrial, anchor: Sample) -> Sample:
        """The sample at an anchor with the motion that pays for its bits; `anchor` if none does."""
        return anchor

    def says_something(self, sample: Sample) -> bool:
        """Whether the layer's value is worth a sample."""
        return bool(sample[self.layer])
