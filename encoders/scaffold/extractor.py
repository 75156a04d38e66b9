"""What extractors have in common: each takes one layer's values from the source."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers import LAYERS
from gsvc.codec.bitstream.scaffold import Geometry, Layer, Place, Sample, Scope, Site
from gsvc.decoders.interpolation.optical_flow import Flow, dense_flow, gray, shrunk
from gsvc.decoders.interpolation.rendering import IntervalRenderer
from gsvc.encoders.distortion import Distortion
from gsvc.encoders.tuning import Level

_LONGEST = 127
"""Magnitude of a vector's component that the encoder proposes, in motion units."""


def source_motion(picture: Picture, others: Sequence[Picture]) -> list[Flow]:
    """Motion from a picture (RGB or luma) to each of the others, found at half size: float32
    (H, W, 2) in pixels."""
    height, width = picture.shape[:2]
    half = max(1, width // 2), max(1, height // 2)
    scale = np.array([width / half[0], height / half[1]], np.float32)
    luma, *ends = (shrunk(gray(one), half) for one in (picture, *others))
    found = (cv2.resize(dense_flow(luma, end), (width, height)) * scale for end in ends)
    return [np.asarray(motion, np.float32) for motion in found]


def to_motion_units(pixels: NDArray[np.floating], geometry: Geometry) -> NDArray[np.int16]:
    """Vectors in pixels as integers in motion units."""
    units = np.rint(pixels / geometry.motion_unit)
    return np.asarray(np.clip(units, -_LONGEST, _LONGEST), np.int16)


class AnchorProbe:
    """Renders the frame of one sample, the anchor, as decoders will, under other values of it."""

    def __init__(
        self,
        renderer: IntervalRenderer,
        closing: Sample | None,
        sources: Sequence[Picture],
        header: Header,
        lmbda: float,
        distortion: Distortion,
        samples: Sequence[Sample],
        index: int,
    ) -> None:
        """A probe of `samples[index]`, of an interval's in order; `closing`: the one before those.

        `sources`: the interval's frames, both coded pictures included. `lmbda`: the distortion,
        over the pixels of the frame, that a bit must save. `header`, `distortion`: the stream's.
        """
        self.anchor, self.lmbda = samples[index], lmbda
        self.predictor = samples[index - 1] if index else closing
        """The sample that the anchor is coded against."""
        self.is_left_nearer = renderer.is_left_nearer(self.anchor.offset)
        self.source = distortion.reference(sources[self.anchor.offset])
        self._renderer, self._closing, self._sources = renderer, closing, sources
        self._header, self._samples, self._index = header, samples, index

    @cached_property
    def _truth(self) -> list[Flow]:
        ends = self._sources[0], self._sources[-1]
        return source_motion(self._sources[self.anchor.offset], ends)

    def _show(self, sample: Sample) -> IntervalRenderer:
        """The renderer, with `sample` in the anchor's place."""
        samples = (*self._samples[: self._index], sample, *self._samples[self._index + 1 :])
        self._renderer.set_samples(self._closing, samples)
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
        """Bits that `other` takes beyond those of `sample`, in the layers where they differ. Models
        begin anew: what they will have learned by then is not known in a probe."""
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
        self, sources: Sequence[Picture], samples: list[Sample], *, semantics: bool
    ) -> list[Sample]:
        """The samples of the next interval with the layer's values, before anything moves.

        `sources`: the frames of the interval, from the coded picture before it to the one that ends
        it, or the first coded picture of a scene alone. `samples`: one on the last frame, after one
        in the middle where the interval is long enough. `semantics`: look at the frames; without it
        the values are empty.
        """
        return samples

    def settle(self, probe: AnchorProbe, samples: list[Sample]) -> list[Sample]:
        """The samples of the interval with what pays at the anchor, before the anchor is moved."""
        return samples

    def improve(self, probe: AnchorProbe, anchor: Sample) -> Sample:
        """The sample at an anchor with the motion that pays for its bits; `anchor` if none does."""
        return anchor

    def says_something(self, sample: Sample) -> bool:
        """Whether the layer's value is worth a sample."""
        return bool(sample[self.layer])
