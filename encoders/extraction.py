"""The scaffold between coded pictures: what the extractors see, and what of it is worth sending."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.rendering import IntervalRenderer
from gsvc.encoders.anchor_trial import AnchorTrial
from gsvc.encoders.distortion import Reference
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.layers import EXTRACTORS
from gsvc.encoders.layers.extractor import Observed
from gsvc.encoders.plan import PLAIN, Drawing
from gsvc.encoders.prices import SamplePrices
from gsvc.encoders.tuning import CORRECTION_LEAST_BITS, CORRECTION_LMBDA

_SHORTEST = 3
"""Frames of an interval below which nothing between the coded pictures is sampled."""
_LONG = 8
"""Frames of an interval from which three anchors are tried."""


@dataclass(frozen=True)
class SourceInterval:
    """The source of an interval, and its coded picture as it will be displayed."""

    sources: Sequence[Picture]
    """The frames since the coded picture before; the last is that of the coded picture, unless
    frames are held after it."""
    shown: Picture
    """The displayed coded picture: at the end, or the one that is held."""
    place: Place = Place.BETWEEN
    drawing: Drawing = PLAIN

    @property
    def length(self) -> int:
        """Frames of the interval."""
        return len(self.sources)


@dataclass(frozen=True)
class Before:
    """What comes before an interval in its scene."""

    source: Picture
    """The source of the last coded picture."""
    shown: Picture
    """The same picture as displayed."""
    after: tuple[Picture, ...] = ()
    """Source frames after it that are not sent yet."""
    closing: Sample | None = None
    """The sample on it."""
    drawing: Drawing = PLAIN
    """How the frames up to the next coded picture are drawn."""


class ScaffoldExtractor:
    """Turns source frames into samples."""

    def __init__(self, recipe: Recipe, pool: Executor) -> None:
        """`pool` works on what is independent. Raises MissingModelError when a layer's model is not
        here."""
        self._pool, self._anchors, header = pool, recipe.effort.anchors, recipe.header
        self._prices = SamplePrices(header)
        self._extractors = [
            make(header.geometry, recipe.level)
            for name, make in EXTRACTORS.items()
            if name in header.tools
        ]

    def extract_group(
        self,
        intervals: Sequence[SourceInterval],
        before: Before | None,
        lmbda: float,
        *,
        watching: bool,
    ) -> list[tuple[Sample, ...]]:
        """Samples of each interval.

        `before`: what precedes them, None when a scene begins; `lmbda`: the distortion, over pixels
        and frames, that a bit must save; `watching`: look for people and regions.
        """
        if not self._extractors:
            return [() for _ in intervals]
        extract = partial(self._extract_interval, lmbda=lmbda, watching=watching)
        if not any(extractor.has_memory for extractor in self._extractors):
            return list(self._pool.map(extract, intervals, _each_before(intervals, before)))
        found: list[tuple[Sample, ...]] = []
        for interval in intervals:
            found.append(extract(interval, before))
            closing = Interval((1,) * interval.length, found[-1]).closing_sample
            before = Before(interval.sources[-1], interval.shown, closing=closing)
        return found

    def _extract_interval(
        self, interval: SourceInterval, before: Before | None, *, lmbda: float, watching: bool
    ) -> tuple[Sample, ...]:
        if interval.place is Place.AFTER:
            return ()
        if before is None:
            sample = Sample(interval.length)
            for extractor in self._extractors:
                sample = extractor.begin_scene(interval.sources[-1], sample, watching=watching)
            samples: tuple[Sample, ...] = (sample,)
        else:
            samples = self._observed([before.source, *interval.sources], watching)
            if len(samples) > 1 and not interval.drawing.dissolves:
                samples = self._improved(samples, interval, before, lmbda, watching)
        return tuple(s for s in samples if any(e.says_something(s) for e in self._extractors))

    def _observed(self, sources: Sequence[Picture], watching: bool) -> tuple[Sample, ...]:
        """Samples of an interval before anything moves: at its end and at the anchors."""
        length = len(sources) - 1
        middle = Sample(length // 2) if length >= _SHORTEST else None
        found = Observed(middle, Sample(length))
        for extractor in self._extractors:
            found = extractor.observe(sources, found, watching=watching)
        if found.middle is None:
            return (found.end,)
        offsets = [found.middle.offset]
        if self._anchors >= 3 and length >= _LONG:
            offsets = [offsets[0] // 2, offsets[0], (offsets[0] + length) // 2]
        # The outer anchors repeat the middle's values: the coder then has nothing to say of them.
        return (*(Sample(offset, found.middle.values) for offset in offsets), found.end)

    def _improved(
        self,
        samples: tuple[Sample, ...],
        interval: SourceInterval,
        before: Before,
        lmbda: float,
        watching: bool,
    ) -> tuple[Sample, ...]:
        """The samples with the motion that pays for its bits, anchor by anchor."""
        length, sources = interval.length, [before.source, *interval.sources]
        middle_first = sorted(samples[:-1], key=lambda s: abs(s.offset - length // 2))
        offsets = [anchor.offset for anchor in middle_first]
        # Luma is enough to judge by, and the motion found in it is the same.
        empty = Interval((1,) * length, values={CAMERA: interval.drawing.camera})
        renderer = IntervalRenderer(gray(before.shown), gray(interval.shown), empty, before.closing)
        floor = _floor(sources, before.shown, interval.shown)
        lmbda = CORRECTION_LMBDA * lmbda / (length / (len(offsets) + 1))

        def trial_of(anchor: Sample) -> AnchorTrial:
            return AnchorTrial(
                renderer, before.closing, samples, anchor, sources, self._prices, lmbda
            )

        if watching and offsets:
            samples = self._settled(trial_of(middle_first[0]), middle_first[0], samples)
        for offset in offsets:
            anchor = next(s for s in samples if s.offset == offset)
            trial = trial_of(anchor)
            if trial.error(anchor) - floor < lmbda * CORRECTION_LEAST_BITS:
                continue  # Nothing to be won here that would pay for even one block.
            better = anchor
            for extractor in self._extractors:
                better = extractor.improve(trial, better)
            if better is anchor:
                break  # Where nothing pays in the middle, nothing pays nearer to coded pictures.
            samples = tuple(better if s is anchor else s for s in samples)
        return samples

    def _settled(
        self, trial: AnchorTrial, anchor: Sample, samples: tuple[Sample, ...]
    ) -> tuple[Sample, ...]:
        for extractor in self._extractors:
            value = extractor.settle(trial, anchor)
            if value is not None:
                samples = tuple(s.having(extractor.layer, value) for s in samples)
        return samples


def distortion_between(
    sources: Sequence[SourceInterval], before: Before | None, intervals: Sequence[Interval]
) -> float:
    """Distortion of what is drawn between the coded pictures, summed over pixels and frames.

    It is measured in the middle of every interval and half-way to it.
    """
    total = 0.0
    closing = None if before is None else before.closing
    for source, last, interval in zip(
        sources, _each_before(sources, before), intervals, strict=True
    ):
        length = interval.length
        if last is not None and length > 1 and source.place is Place.BETWEEN:
            ends = gray(last.shown), gray(source.shown)
            renderer = IntervalRenderer(*ends, interval, closing)
            seen = sorted({max(1, length // 4), length // 2, 3 * length // 4})
            drawn = (Reference(source.sources[k - 1]).total(renderer.picture(k)) for k in seen)
            total += sum(drawn) * (length - 1) / len(seen)
        closing = interval.closing_sample
    return total


def _each_before(intervals: Sequence[SourceInterval], before: Before | None) -> list[Before | None]:
    """What comes before each interval, as far as it is known before any is looked at."""
    return [before, *(Before(one.sources[-1], one.shown) for one in intervals[:-1])]


def _floor(sources: Sequence[Picture], left: Picture, right: Picture) -> float:
    """The least distortion a frame between can have, about: the better coded picture's own."""
    ends = (sources[0], left), (sources[-1], right)
    return min(Reference(source).total(shown) for source, shown in ends)
