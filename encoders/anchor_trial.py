"""Trials of the scaffold at one frame: rendered as the decoder will, and priced."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import Sample
from gsvc.decoders.motion.estimation import Flow
from gsvc.decoders.rendering import IntervalRenderer
from gsvc.encoders.distortion import Reference
from gsvc.encoders.motion import true_motion
from gsvc.encoders.prices import SamplePrices


class AnchorTrial:
    """Renders the frame of one sample, the anchor, under other values of it."""

    def __init__(
        self,
        renderer: IntervalRenderer,
        before: Sample | None,
        samples: tuple[Sample, ...],
        anchor: Sample,
        sources: Sequence[Picture],
        prices: SamplePrices,
        lmbda: float,
    ) -> None:
        """Set up a trial of `anchor`.

        `samples`: those of the interval, `anchor` included. `sources`: its source frames, both
        coded pictures included. `prices`: of the stream. `lmbda`: the distortion that a bit must
        save, summed over the pixels of the frame.
        """
        self._renderer, self._before = renderer, before
        self._others = tuple(s for s in samples if s is not anchor)
        earlier = [s for s in self._others if s.offset < anchor.offset]
        self.predictor = earlier[-1] if earlier else before
        """The sample that the anchor is coded against."""
        self._prices, self._length = prices, len(sources) - 1
        self._pictures = sources[anchor.offset], sources[0], sources[-1]
        self.source = Reference(sources[anchor.offset])
        self.lmbda = lmbda

    @cached_property
    def _truth(self) -> tuple[Flow, Flow]:
        return true_motion(*self._pictures)

    def show(self, sample: Sample) -> IntervalRenderer:
        """The renderer, with `sample` among the others."""
        samples = sorted((*self._others, sample), key=lambda s: s.offset)
        self._renderer.set_samples(self._before, tuple(samples))
        return self._renderer

    def missing(self, sample: Sample) -> tuple[Flow, Flow]:
        """True minus assumed motion towards the left and the right coded picture, in pixels."""
        assumed = self.show(sample).motion_at(sample.offset)
        return self._truth[0] - assumed[0], self._truth[1] - assumed[1]

    def missing_average(self, sample: Sample) -> Flow:
        """What both motions miss alike: the bend of the path."""
        left, right = self.missing(sample)
        return (left + right) / np.float32(2)

    def better(self, sample: Sample, other: Sample) -> Sample:
        """`other` if it saves more distortion than its bits are worth, else `sample`."""
        gain = self.error(sample) - self.error(other)
        return other if gain > self.lmbda * self.extra_bits(sample, other) else sample

    def extra_bits(self, sample: Sample, other: Sample) -> float:
        """How many bits more `other` takes than `sample`."""
        one, two = (self._prices.bits(s, self.predictor, self._length) for s in (sample, other))
        return two - one

    def error(self, sample: Sample) -> float:
        """Distortion of the anchor's frame under `sample`, summed over pixels."""
        return self.source.total(self.show(sample).picture(sample.offset))
