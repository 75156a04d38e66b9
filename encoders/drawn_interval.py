"""An interval as the decoder will draw it, between the key pictures as they are coded."""

from collections.abc import Sequence
from functools import cached_property

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.rendering import IntervalRenderer, held_picture
from gsvc.encoders.extraction import Before, SourceInterval, each_before


class DrawnInterval:
    """Renders an interval's frames in luma: enough to judge by, and motion found in it is the same.

    Times are those of `camera_nodes`.
    """

    def __init__(
        self,
        source: SourceInterval,
        before: Before | None,
        interval: Interval,
        closing: Sample | None,
    ) -> None:
        """`before`: what precedes it; `closing`: the sample there."""
        self.interval, self.sources, self._shown = interval, source.sources, source.shown
        self._before, self._closing = before, closing
        self.last = interval.length - (interval.place is not Place.AFTER)
        """The time of its last frame that is drawn; the first one's is 1."""

    def times(self, most: int) -> list[int]:
        """Those of `most` of its frames, spread evenly."""
        count = min(most, self.last)
        return sorted({round((k + 0.5) * self.last / count + 0.5) for k in range(count)})

    def source_at(self, time: int) -> Picture:
        """The source of a frame."""
        back = self.interval.place is Place.BEFORE
        return self.sources[(self.interval.length - time if back else time) - 1]

    def picture(self, interval: Interval, time: int) -> Picture:
        """The frame under `interval`, which may have another scaffold: luma uint8 (H, W)."""
        if interval.place is not Place.BETWEEN:
            return held_picture(self._key, interval, time)
        self._renderer.set_interval(self._closing, interval)
        return self._renderer.picture(time)

    @cached_property
    def _key(self) -> Picture:
        """The luma of its key picture: at its end, or the one that is held."""
        return gray(self._shown)

    @cached_property
    def _renderer(self) -> IntervalRenderer:
        assert self._before is not None  # of an interval BETWEEN that is not a picture alone
        return IntervalRenderer(gray(self._before.shown), self._key, self.interval, self._closing)


def drawn_intervals(
    sources: Sequence[SourceInterval], before: Before | None, intervals: Sequence[Interval]
) -> list[DrawnInterval]:
    """Those of a group; `before`: what precedes it."""
    closings = [None if before is None else before.closing]
    closings += [interval.closing_sample for interval in intervals]
    parts = zip(sources, each_before(sources, before), intervals, closings, strict=False)
    return [DrawnInterval(*one) for one in parts]
