"""Trials of the scaffold at one frame: rendered as the decoder will, and priced by its coder."""

from collections.abc import Sequence
from functools import cached_property

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layer import Scope, Site
from gsvc.codec.scaffold.layers import LAYERS
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Sample
from gsvc.codec.stream.header import Header
from gsvc.decoders.motion.estimation import Flow
from gsvc.decoders.rendering import IntervalRenderer
from gsvc.encoders.distortion import Judge
from gsvc.encoders.motion import source_motion


class AnchorTrial:
    """Renders the frame of one sample, the anchor, under other values of it."""

    def __init__(
        self,
        renderer: IntervalRenderer,
        before: Sample | None,
        sources: Sequence[Picture],
        header: Header,
        lmbda: float,
        judge: Judge,
        samples: Sequence[Sample],
        index: int,
    ) -> None:
        """Set up a trial of `samples[index]`.

        `before`: the sample before the interval. `sources`: its source frames, both coded pictures
        included. `header`: of the stream. `lmbda`: the distortion that a bit must save, summed over
        the pixels of the frame. `judge`: of the stream. `samples`: those of the
        interval, in order.
        """
        self.anchor, self.lmbda = samples[index], lmbda
        self.predictor = samples[index - 1] if index else before
        """The sample that the anchor is coded against."""
        self.is_left_nearer = renderer.is_left_nearer(self.anchor.offset)
        self.source = judge.reference(sources[self.anchor.offset])
        self._renderer, self._before, self._sources = renderer, before, sources
        self._header, self._samples, self._index = header, samples, index

    @cached_property
    def _truth(self) -> list[Flow]:
        ends = self._sources[0], self._sources[-1]
        return source_motion(self._sources[self.anchor.offset], ends)

    def _show(self, sample: Sample) -> IntervalRenderer:
        """The renderer, with `sample` in the anchor's place."""
        samples = (*self._samples[: self._index], sample, *self._samples[self._index + 1 :])
        self._renderer.set_samples(self._before, samples)
        return self._renderer

    def picture(self, sample: Sample) -> Picture:
        """The anchor's frame under `sample`."""
        return self._show(sample).picture(sample.offset)

    def missing(self, sample: Sample) -> tuple[Flow, Flow]:
        """True minus assumed motion towards the left and the right coded picture, in pixels."""
        to_left, to_right = self._show(sample).motion_at(sample.offset)
        return self._truth[0] - to_left, self._truth[1] - to_right

    def better(self, sample: Sample, other: Sample) -> Sample:
        """`other` if it saves more distortion than its bits are worth, else `sample`."""
        gain = self.error(sample) - self.error(other)
        return other if gain > self.lmbda * self._extra_bits(sample, other) else sample

    def error(self, sample: Sample) -> float:
        """Distortion of the anchor's frame under `sample`, summed over pixels."""
        return self.source.total(self.picture(sample))

    def _extra_bits(self, sample: Sample, other: Sample) -> float:
        """Bits that `other` takes beyond those of `sample`, in the layers where they differ.

        Models begin anew: what they will have learned by then is not known in a trial.
        """
        site = Site(self._header.geometry, Place.BETWEEN, len(self._sources) - 1)
        before = self.predictor or Sample(0)
        return sum(
            layer.bits(site, before[layer], other[layer])
            - layer.bits(site, before[layer], sample[layer])
            for layer in LAYERS
            if layer.scope is Scope.SAMPLE
            and layer.name in self._header.tools
            and other[layer] is not sample[layer]
        )
