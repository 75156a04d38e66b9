"""The scaffold of an interval: all three extractors, then the choice of what is worth sending."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.interval import Tools
from gsvc.codec.scaffold.types import (
    MAX_LABEL,
    PERSON,
    Geometry,
    Interval,
    Person,
    Place,
    Sample,
)
from gsvc.decoders.motion.estimation import Flow, gray
from gsvc.decoders.rendering import IntervalRenderer
from gsvc.encoders.distortion import Reference
from gsvc.encoders.layers.flow import layer_vectors, propose_correction, true_motion
from gsvc.encoders.layers.pose import PoseTracker
from gsvc.encoders.layers.segmentation import Segmenter
from gsvc.encoders.search import PLAIN, Way
from gsvc.encoders.tuning import Level

_SHORTEST = 3
"""Frames of an interval below which nothing between the key pictures is sampled."""
_LONG = 8
"""Frames of an interval from which three anchors are tried."""
_FADE = 2.0
"""A correction fades towards its neighbours: half of what it gains at the anchor is gained on average."""
_LEAST_BITS = 80.0
"""What all that a rendering lacks must be worth before corrections are tried: they win back a part of it at best."""
_LAYER_BITS = 10.0
_LIMB_BITS = 2.0
_EDGE_BITS = 1.5
"""Rough price of a cell whose left or upper neighbour has another label."""


@dataclass(frozen=True)
class Span:
    """What a packet completes: the source frames since the key picture before it, the last being its own, and the
    key picture as it will be shown; or the frames at the end of a scene, and the picture that they hold."""

    sources: Sequence[Picture]
    shown: Picture
    place: Place = Place.BETWEEN
    way: Way = PLAIN


@dataclass(frozen=True)
class Scene:
    """What comes before: the last key picture as it was and as shown, the source frames after it that are not
    sent yet, the sample on it, and the way to the next key picture."""

    source: Picture
    shown: Picture
    after: tuple[Picture, ...]
    closing: Sample | None
    way: Way = PLAIN


class ScaffoldExtractor:
    """Turns source frames into samples. Raises MissingModelError at once when a tool's model is not here."""

    def __init__(
        self, level: Level, tools: Tools, geometry: Geometry, anchors: int, pool: Executor
    ) -> None:
        """`anchors`: at most so many an interval; `pool`: what can be worked on side by side is."""
        self._pool = pool
        self._level = level
        self._anchors = anchors
        self._geometry = geometry
        self._tools = tools
        self._pose = PoseTracker() if tools.pose else None
        self._segmenter = Segmenter() if tools.segmentation else None
        self._watching = True
        self._labels: NDArray[np.uint8] | None = None

    def extract_group(
        self, spans: Sequence[Span], scene: Scene | None, price: float, *, watching: bool
    ) -> list[tuple[Sample, ...]]:
        """Samples of each span; `price`: the distortion, summed over pixels and frames, that a bit must save.

        `scene`: what comes before, None when a scene begins; `watching`: look for people and regions.
        """
        self._watching = watching
        if not (self._tools.segmentation or self._tools.pose or self._tools.flow):
            return [() for _ in spans]
        if not self._tools.segmentation and not self._tools.pose:
            # Without memory from one interval to the next they can be worked on side by side.
            extract = partial(self._extract_span, price=price)
            return list(self._pool.map(extract, spans, _scenes(spans, scene)))
        found: list[tuple[Sample, ...]] = []
        for span in spans:
            found.append(self._extract_span(span, scene, price=price))
            scene = Scene(span.sources[-1], span.shown, (), closing_sample(found[-1], span))
        return found

    def distortion(
        self, spans: Sequence[Span], scene: Scene | None, intervals: Sequence[Interval]
    ) -> float:
        """Distortion of what is drawn between the key pictures, summed over pixels and frames; measured in the
        middle of every interval and half-way to it."""
        total = 0.0
        scenes = _scenes(spans, scene)
        closing = None if scene is None else scene.closing
        for span, last, interval in zip(spans, scenes, intervals, strict=True):
            length = interval.length
            if last is not None and length > 1 and span.place is Place.BETWEEN:
                ends = gray(last.shown), gray(span.shown)
                renderer = IntervalRenderer(*ends, interval, closing)
                seen = sorted({max(1, length // 4), length // 2, 3 * length // 4})
                drawn = (Reference(span.sources[k - 1]).total(renderer.picture(k)) for k in seen)
                total += sum(drawn) * (length - 1) / len(seen)
            closing = interval.closing_sample
        return total

    def _extract_span(self, span: Span, scene: Scene | None, price: float) -> tuple[Sample, ...]:
        if span.place is Place.AFTER:
            return ()
        if scene is None:
            return self._begin_scene(span.sources[-1], len(span.sources))
        sources = [scene.source, *span.sources]
        return self._extract(sources, scene.shown, span, scene.closing, price)

    def _begin_scene(self, picture: Picture, offset: int) -> tuple[Sample, ...]:
        """The sample of the first key picture of a scene, if it says something."""
        self._labels = None
        if self._pose:
            self._pose.forget()
        if self._segmenter:
            self._segmenter.forget()
        people = self._people(picture)
        labels = self._segment(picture, people, None)
        sample = Sample(offset, labels, self._no_layers(), people)
        return (sample,) if _says_something(sample) else ()

    def _extract(
        self,
        sources: Sequence[Picture],
        left: Picture,
        span: Span,
        before: Sample | None,
        price: float,
    ) -> tuple[Sample, ...]:
        """Samples of one interval; `price`: the distortion, summed over pixels and frames, a bit must save.

        `sources`: the source frames from the left key picture to the right one, both included; `left`: the first
        of them as shown; `before`: the sample on it, if there is one.
        """
        length = len(sources) - 1
        samples = self._still_samples(sources)
        anchors = sorted(
            (s for s in samples if s.offset < length), key=lambda s: abs(s.offset - length // 2)
        )
        if anchors and not span.way.dissolves:
            # Luma is enough to judge by, and the motion found in it is the same.
            ends = gray(left), gray(span.shown)
            empty = Interval((1,) * length, camera=span.way.camera)
            renderer = IntervalRenderer(*ends, empty, before)
            floor = _floor(sources, left, span.shown)
            reach = length / (len(anchors) + 1)
            price = _FADE * price / reach
            if self._segmenter is not None and self._watching:
                trial = _Trial(renderer, before, samples, anchors[0], sources, price)
                samples = self._settle_labels(trial, anchors[0], samples)
            for offset in [anchor.offset for anchor in anchors]:
                anchor = next(s for s in samples if s.offset == offset)
                trial = _Trial(renderer, before, samples, anchor, sources, price)
                if trial.error(anchor) - floor < price * _LEAST_BITS:
                    continue  # Nothing to be won here that would pay for even one block.
                better = self._correct(trial, anchor)
                if better is anchor:
                    break  # Where nothing pays in the middle, nothing will nearer to the key pictures.
                samples = tuple(better if s is anchor else s for s in samples)
        return tuple(s for s in samples if _says_something(s))

    def _settle_labels(
        self, trial: "_Trial", anchor: Sample, samples: tuple[Sample, ...]
    ) -> tuple[Sample, ...]:
        """Keep the regions that move apart only if moving them pays for their outlines too.

        People stay whether they pay or not: they are what the stream is read for.
        """
        if self._segmenter is None or anchor.labels is None or not (anchor.labels > PERSON).any():
            return samples
        with_regions = anchor.labels
        people = np.where(with_regions == PERSON, PERSON, 0).astype(np.uint8)
        layers = layer_vectors(with_regions, trial.missing_average(anchor), self._geometry)
        bits = _LAYER_BITS * int(layers.any(1).sum())
        bits += _EDGE_BITS * (_edges(with_regions) - _edges(people))
        plain = replace(anchor, labels=people)
        chosen = trial.better(plain, replace(anchor, layers=layers), bits).labels
        assert chosen is not None
        self._labels = chosen
        self._segmenter.settle(chosen)
        return tuple(replace(s, labels=chosen) for s in samples)

    def _still_samples(self, sources: Sequence[Picture]) -> tuple[Sample, ...]:
        """Samples of an interval before anything moves: segmentation and pose in the middle and at its end."""
        length = len(sources) - 1
        end = Sample(length, people=self._people(sources[-1]), layers=self._no_layers())
        if length < _SHORTEST:
            return (replace(end, labels=self._labels),)
        middle = length // 2
        people = self._people(sources[middle])
        labels = self._labels_amid(sources, middle, people)
        offsets = [middle]
        if self._anchors >= 3 and length >= _LONG:
            offsets = [middle // 2, middle, (middle + length) // 2]
        # The outer anchors repeat the middle's people and labels: the coder then has nothing to say of them.
        anchors = [Sample(k, labels, self._no_layers(), people) for k in offsets]
        return (*anchors, replace(end, labels=labels))

    def _correct(self, trial: "_Trial", anchor: Sample) -> Sample:
        """`anchor` with the limb motion, layer motion and block corrections that pay."""
        if anchor.people:
            people = tuple(replace(person, moves_picture=True) for person in anchor.people)
            anchor = trial.better(anchor, replace(anchor, people=people), _LIMB_BITS)
        if anchor.labels is not None:
            layers = layer_vectors(anchor.labels, trial.missing_average(anchor), self._geometry)
            for label in np.flatnonzero(layers.any(1)).tolist():
                assert anchor.layers is not None
                chosen = anchor.layers.copy()
                chosen[label] = layers[label]
                anchor = trial.better(anchor, replace(anchor, layers=chosen), _LAYER_BITS)
        if self._tools.flow:
            correction = propose_correction(
                trial.show(anchor),
                anchor,
                trial.source,
                trial.missing(anchor),
                self._geometry,
                self._level.block_log2,
                trial.price,
            )
            if correction is not None:
                anchor = replace(anchor, correction=correction)
        return anchor

    def _people(self, picture: Picture) -> tuple[Person, ...] | None:
        if self._pose is None:
            return None
        return self._pose(picture, self._geometry) if self._watching else ()

    def _labels_amid(
        self, sources: Sequence[Picture], middle: int, people: tuple[Person, ...] | None
    ) -> NDArray[np.uint8] | None:
        frame = sources[middle]
        if self._segmenter is None or not self._watching:
            return self._segment(frame, people, None)
        to_left, to_right = true_motion(frame, sources[0], sources[-1])
        return self._segment(frame, people, to_right - to_left)

    def _segment(
        self, picture: Picture, people: tuple[Person, ...] | None, motion: Flow | None
    ) -> NDArray[np.uint8] | None:
        if self._segmenter and self._watching:
            self._labels = self._segmenter(picture, people, motion, self._geometry)
        elif self._segmenter:
            self._labels = np.zeros(self._geometry.label_shape, np.uint8)
        return self._labels

    def _no_layers(self) -> NDArray[np.int16] | None:
        return np.zeros((MAX_LABEL + 1, 2), np.int16) if self._tools.segmentation else None


class _Trial:
    """Renders one anchor's frame under trial samples and prices the result."""

    def __init__(
        self,
        renderer: IntervalRenderer,
        before: Sample | None,
        samples: tuple[Sample, ...],
        anchor: Sample,
        sources: Sequence[Picture],
        price: float,
    ) -> None:
        self._renderer, self._before = renderer, before
        self._others = tuple(s for s in samples if s is not anchor)
        self._pictures = sources[anchor.offset], sources[0], sources[-1]
        self.source = Reference(sources[anchor.offset])
        self.price = price

    @cached_property
    def _truth(self) -> tuple[Flow, Flow]:
        return true_motion(*self._pictures)

    def show(self, sample: Sample) -> IntervalRenderer:
        """The renderer, with `sample` among the others."""
        samples = sorted((*self._others, sample), key=lambda s: s.offset)
        self._renderer.set_samples(self._before, tuple(samples))
        return self._renderer

    def missing(self, sample: Sample) -> tuple[Flow, Flow]:
        """True minus assumed motion towards the left and the right key picture, in pixels."""
        assumed = self.show(sample).motion_at(sample.offset)
        return self._truth[0] - assumed[0], self._truth[1] - assumed[1]

    def missing_average(self, sample: Sample) -> Flow:
        """What both motions miss alike: the bend of the path."""
        left, right = self.missing(sample)
        return (left + right) / np.float32(2)

    def better(self, sample: Sample, other: Sample, bits: float) -> Sample:
        """`other` if it saves more than `bits` are worth, else `sample`."""
        gain = self.error(sample) - self.error(other)
        return other if gain > self.price * bits else sample

    def error(self, sample: Sample) -> float:
        """Distortion of the anchor's frame under `sample`, summed over pixels."""
        rendered = self.show(sample).picture(sample.offset)
        return self.source.total(rendered)


def closing_sample(samples: tuple[Sample, ...], span: Span) -> Sample | None:
    """The sample on the key picture, seen from the next interval."""
    return Interval((1,) * len(span.sources), samples).closing_sample


def _scenes(spans: Sequence[Span], scene: Scene | None) -> list[Scene | None]:
    """What comes before each span, as far as it is known before any is looked at."""
    return [scene, *(Scene(span.sources[-1], span.shown, (), None) for span in spans[:-1])]


def _floor(sources: Sequence[Picture], left: Picture, right: Picture) -> float:
    """The least distortion a frame between can have, about: the better key picture's own."""
    ends = (sources[0], left), (sources[-1], right)
    return min(Reference(source).total(shown) for source, shown in ends)


def _edges(labels: NDArray[np.uint8]) -> int:
    return int((np.diff(labels, axis=0) != 0).sum() + (np.diff(labels, axis=1) != 0).sum())


def _says_something(sample: Sample) -> bool:
    return (
        sample.correction is not None
        or bool(sample.people)
        or (sample.labels is not None and bool(sample.labels.any()))
        or (sample.layers is not None and bool(sample.layers.any()))
    )
