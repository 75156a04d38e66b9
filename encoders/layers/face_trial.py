"""Trials of an interval's faces: rendered as the decoder will, on a few frames."""

from dataclasses import replace
from functools import cached_property

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.faces import FACES, Faces
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.rendering import IntervalRenderer, held_picture
from gsvc.encoders.distortion import Judge, Reference
from gsvc.encoders.extraction import Before, SourceInterval

_JUDGED = 4
"""Frames of an interval that are looked at, at most."""


class FaceTrial:
    """Renders an interval under other faces."""

    def __init__(
        self,
        source: SourceInterval,
        before: Before | None,
        interval: Interval,
        closing: Sample | None,
        judge: Judge,
        lmbda: float,
    ) -> None:
        """`before`: what precedes it; `closing`: the sample there; `lmbda`: the distortion, over
        pixels and frames, that a bit must save."""
        self.interval, self.lmbda = interval, lmbda
        self._source, self._before, self._closing, self._judge = source, before, closing, judge
        last = interval.length - (interval.place is not Place.AFTER)
        count = min(_JUDGED, last)
        self._times = sorted({round((k + 0.5) * last / count + 0.5) for k in range(count)})
        self._frames = last

    def distortion(self, faces: Faces | None) -> float:
        """That of the frames drawn, summed over pixels and frames."""
        interval = replace(self.interval, values={**self.interval.values, FACES: faces})
        drawn = sum(
            reference.total(self._drawn(interval, time))
            for time, reference in self._references.items()
        )
        return drawn * self._frames / len(self._times)

    @cached_property
    def _references(self) -> dict[int, Reference]:
        sources, length = self._source.sources, self.interval.length
        back = self.interval.place is Place.BEFORE
        at = {time: length - time if back else time for time in self._times}
        return {time: self._judge.reference(sources[one - 1]) for time, one in at.items()}

    @cached_property
    def _renderer(self) -> IntervalRenderer:
        assert self._before is not None  # of an interval BETWEEN that is not a picture alone
        # Luma is enough to judge by, and the motion found in it is the same.
        ends = gray(self._before.shown), gray(self._source.shown)
        return IntervalRenderer(*ends, self.interval, self._closing)

    @cached_property
    def _held(self) -> Picture:
        return gray(self._source.shown)

    def _drawn(self, interval: Interval, time: int) -> Picture:
        if interval.place is not Place.BETWEEN:
            return held_picture(self._held, interval, time)
        self._renderer.set_interval(self._closing, interval)
        return self._renderer.picture(time)
