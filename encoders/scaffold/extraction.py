"""The scaffold between coded pictures: what the extractors see, and what of it is worth sending."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.camera import CAMERA
from gsvc.codec.bitstream.scaffold import Interval, Place, Sample
from gsvc.decoders.interpolation import optical_flow, rendering
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.distortion import Distortion
from gsvc.encoders.frame_buffer import JoinedFrames
from gsvc.encoders.plans import PLAIN, DrawingMode, DrawnInterval
from gsvc.encoders.scaffold.extractor import AnchorProbe, Extractor
from gsvc.encoders.scaffold.flow_extractor import FlowExtractor
from gsvc.encoders.scaffold.pose_extractor import PoseExtractor
from gsvc.encoders.scaffold.segmentation_extractor import SegmentationExtractor
from gsvc.encoders.tuning import CORRECTION_LEAST_BITS, CORRECTION_LMBDA

EXTRACTORS: tuple[type[Extractor], ...] = (PoseExtractor, SegmentationExtractor, FlowExtractor)
"""The layers with samples, in the order in which they see a frame: people confirm segments."""
_SHORTEST = 3
"""Frames of an interval below which nothing between the coded pictures is sampled."""
_LONG = 8  # frames of an interval from which three anchors are tried


@dataclass(frozen=True)
class SourceInterval:
    """What the encoder has of an interval: source frames, and its coded picture as decoded."""

    sources: Sequence[Picture]
    """The frames since the coded picture before; the last is that of the coded picture, unless
    frames are held after it."""
    shown: Picture
    """The displayed coded picture, or its luma: at the end, or the one that is held."""
    place: Place = Place.BETWEEN
    """BETWEEN two coded pictures, BEFORE a scene's first or AFTER its last one."""
    drawing: DrawingMode = PLAIN

    @property
    def length(self) -> int:
        """Frames of the interval."""
        return len(self.sources)


@dataclass(frozen=True)
class KeyBefore:
    """The coded picture before an interval in its scene."""

    source: Picture
    """The source of the last coded picture."""
    shown: Picture
    """The same picture as displayed, or its luma."""
    unsent: Sequence[Picture] = ()
    """Source frames after it that are not sent yet."""
    closing: Sample | None = None
    """The sample on it."""
    drawing: DrawingMode = PLAIN
    """How the frames up to the next coded picture are drawn."""


class ScaffoldExtractor:
    """Turns source frames into samples."""

    def __init__(self, config: CodingConfig, distortion: Distortion, pool: Executor) -> None:
        """`pool` does what is independent. Raises MissingModelError if a layer lacks its model."""
        self._pool, self._anchors, self._header = pool, config.effort.anchors, config.header
        self._distortion = distortion
        self._extractors = [
            make(self._header.geometry, config.level)
            for make in EXTRACTORS
            if make.layer.name in self._header.tools
        ]

    def extract_group(
        self,
        intervals: Sequence[SourceInterval],
        before: KeyBefore | None,
        lmbda: float,
        *,
        semantics: bool,
    ) -> list[tuple[Sample, ...]]:
        """Samples of each interval.

        `before`: what precedes them, None when a scene begins; `lmbda`: the distortion, over pixels
        and frames, that a bit must save; `semantics`: look for people and regions.
        """
        if not self._extractors:
            return [() for _ in intervals]
        extract = partial(self._extract_interval, lmbda=lmbda, semantics=semantics)
        if not any(extractor.has_memory for extractor in self._extractors):
            return list(self._pool.map(extract, intervals, keys_before(intervals, before)))
        found: list[tuple[Sample, ...]] = []
        for interval in intervals:
            found.append(extract(interval, before))
            closing = Interval((1,) * interval.length, found[-1]).closing_sample
            before = KeyBefore(interval.sources[-1], interval.shown, closing=closing)
        return found

    def _extract_interval(
        self, interval: SourceInterval, before: KeyBefore | None, *, lmbda: float, semantics: bool
    ) -> tuple[Sample, ...]:
        if interval.place is Place.AFTER:
            return ()
        if before is None:
            (first,) = self._observed([interval.sources[-1]], semantics)
            samples = [Sample(interval.length, first.values)]
        else:
            samples = self._observed(JoinedFrames([before.source], interval.sources), semantics)
            if len(samples) > 1 and not interval.drawing.dissolves:
                samples = self._improved(samples, interval, before, lmbda, semantics)
        return tuple(s for s in samples if any(e.says_something(s) for e in self._extractors))

    def _observed(self, sources: Sequence[Picture], semantics: bool) -> list[Sample]:
        """Samples before anything moves, on the last source and on anchors after the first one."""
        length = len(sources) - 1
        samples = [Sample(length // 2), Sample(length)] if length >= _SHORTEST else [Sample(length)]
        for extractor in self._extractors:
            samples = extractor.observe(sources, samples, semantics=semantics)
        *middle, end = samples
        if self._anchors >= 3 and length >= _LONG:
            # The outer anchors repeat the middle's values: the coder has nothing to say of them.
            offsets = length // 4, length // 2, (length // 2 + length) // 2
            middle = [Sample(offset, samples[0].values) for offset in offsets]
        return [*middle, end]

    def _improved(
        self,
        samples: list[Sample],
        interval: SourceInterval,
        before: KeyBefore,
        lmbda: float,
        semantics: bool,
    ) -> list[Sample]:
        """The samples with the motion that pays for its bits, anchor by anchor."""
        probe_of = self._probes(interval, before, lmbda, len(samples))
        # A frame between is hardly better than the better of the coded pictures.
        ends = (before.source, before.shown), (interval.sources[-1], interval.shown)
        floor = min(self._distortion.reference(source).total(shown) for source, shown in ends)
        anchors, middle = range(len(samples) - 1), interval.length // 2
        middle_first = sorted(anchors, key=lambda k: abs(samples[k].offset - middle))
        if semantics:
            probe = probe_of(samples, middle_first[0])
            for extractor in self._extractors:
                samples = extractor.settle(probe, samples)
        for index in middle_first:
            probe = probe_of(samples, index)
            if probe.error(probe.anchor) - floor < probe.lmbda * CORRECTION_LEAST_BITS:
                continue  # Nothing to be won here that would pay for even one block.
            better = probe.anchor
            for extractor in self._extractors:
                better = extractor.improve(probe, better)
            if better is probe.anchor:
                break  # Where nothing pays in the middle, nothing pays nearer to coded pictures.
            samples = [*samples[:index], better, *samples[index + 1 :]]
        return samples

    def _probes(
        self, interval: SourceInterval, before: KeyBefore, lmbda: float, count: int
    ) -> Callable[[list[Sample], int], AnchorProbe]:
        """Makes probes in an interval with `count` samples: of these, at the one with this index.
        `lmbda`: as of `extract_group`; each anchor answers for its share of the frames."""
        lmbda = CORRECTION_LMBDA * lmbda / (interval.length / count)
        # Luma is enough to judge by, and the motion found in it is the same.
        ends = optical_flow.gray(before.shown), optical_flow.gray(interval.shown)
        plain = Interval((1,) * interval.length, values={CAMERA: interval.drawing.camera})
        renderer = rendering.IntervalRenderer(*ends, plain, before.closing)
        sources = JoinedFrames([before.source], interval.sources)
        return partial(
            AnchorProbe, renderer, before.closing, sources, self._header, lmbda, self._distortion
        )


def distortion_between(
    sources: Sequence[SourceInterval],
    before: KeyBefore | None,
    intervals: Sequence[Interval],
    distortion: Distortion,
) -> float:
    """Distortion of what is drawn between the coded pictures, summed over pixels and frames.

    It is measured in the middle of every interval and half-way to it.
    """
    total = 0.0
    for view in rendered_intervals(sources, before, intervals):
        interval, length = view.interval, view.interval.length
        if view.follows and length > 1 and interval.place is Place.BETWEEN:
            seen = sorted({max(1, length // 4), length // 2, 3 * length // 4})
            drawn = (
                distortion.reference(view.source_at(k)).total(view.picture(interval, k))
                for k in seen
            )
            total += sum(drawn) * (length - 1) / len(seen)
    return total


def keys_before(
    intervals: Sequence[SourceInterval], before: KeyBefore | None
) -> list[KeyBefore | None]:
    """That of each interval, as far as it is known before any is looked at."""
    return [before, *(KeyBefore(one.sources[-1], one.shown) for one in intervals[:-1])]


class RenderedInterval(DrawnInterval):
    """An interval that is drawn beside its source."""

    def __init__(
        self,
        source: SourceInterval,
        before: KeyBefore | None,
        interval: Interval,
        closing: Sample | None,
        *,
        quick: bool = False,
    ) -> None:
        """`before`: what precedes it; `closing`: the sample there; `quick`: as of
        `IntervalRenderer`."""
        last = None if before is None else before.shown
        super().__init__(interval, source.shown, last, closing, quick=quick)
        self.sources, self.follows = source.sources, before is not None
        self.last = interval.length - (interval.place is not Place.AFTER)
        """The time of its last frame that is drawn; the first one's is 1."""

    def times(self, most: int) -> list[int]:
        """Times of at most `most` of its frames, spread evenly."""
        count = min(most, self.last)
        return sorted({round((k + 0.5) * self.last / count + 0.5) for k in range(count)})

    def source_at(self, time: int) -> Picture:
        """The source of a frame."""
        back = self.interval.place is Place.BEFORE
        return self.sources[(self.interval.length - time if back else time) - 1]


def rendered_intervals(
    sources: Sequence[SourceInterval],
    before: KeyBefore | None,
    intervals: Sequence[Interval],
    *,
    quick: bool = False,
) -> Iterator[RenderedInterval]:
    """Rendered intervals of a group; `before`: what precedes it; `quick`: as of `DrawnInterval`."""
    closings = [None if before is None else before.closing]
    closings += [interval.closing_sample for interval in intervals]
    make = partial(RenderedInterval, quick=quick)
    return map(make, sources, keys_before(sources, before), intervals, closings)
