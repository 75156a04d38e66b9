"""The syntax of an interval: its times, then the values of its layers.

Each function takes the value to write, or None for a reader, and returns the value. Contexts and
predictions depend on integers that were coded before, never on floating point.
"""

from copy import copy
from fractions import Fraction
from typing import Any

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.scaffold.coder import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Layer, Scope, Site
from gsvc.codec.scaffold.layers import LAYERS
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.timing import FrameClock
from gsvc.codec.scaffold.tools import Tools
from gsvc.codec.scaffold.types import Interval, Sample, Values

MAX_SAMPLES = 15
"""Most samples of an interval."""

_CRF = Element("picture.crf", "key pictures", UNSIGNED, 70)
_SCALE = Element("picture.eighths", "key pictures", UNSIGNED, 8)
_IRREGULAR = Element("timing.irregular", "timing", FLAG)
_DEVIATION = Element("timing.deviation", "timing", SIGNED, 1 << 30)
_HELD = Element("interval.held", "timing", FLAG)
_DISSOLVES = Element("interval.dissolves", "timing", FLAG)
_MORE = Element("sample.more", "timing", FLAG)
_GAP = Element("sample.gap", "timing", UNSIGNED, 2048)

ELEMENTS = (
    *(_CRF, _SCALE, _IRREGULAR, _DEVIATION, _HELD, _DISSOLVES, _MORE, _GAP),
    *(element for layer in LAYERS for element in layer.elements),
)
"""Every syntax element of the scaffold."""


class Prediction:
    """What the next interval of a group is predicted from."""

    def __init__(self, frame_ticks: Fraction, *, holds: bool, dissolves: bool) -> None:
        """Arguments as in the header."""
        self.holds, self.dissolves = holds, dissolves
        self.opens_group = True
        self.clock = FrameClock(frame_ticks)
        self.before: dict[Layer[Any], Any] = {}
        """The last value of each layer."""


class IntervalCoder:
    """Codes the intervals of one group, in order, with `coder`."""

    def __init__(
        self, coder: Coder, prediction: Prediction, geometry: Geometry, tools: Tools
    ) -> None:
        self._coder, self._prediction, self._geometry = coder, prediction, geometry
        self._layers = {
            scope: [layer for layer in LAYERS if layer.scope is scope and layer.name in tools]
            for scope in Scope
        }

    def code_picture(self, crf: int | None, scale: int | None) -> tuple[int, int]:
        """The quantiser (1 to 70) and scale (1 to 8 eighths) of a group's pictures.

        Raises BitstreamError when one read is 0.
        """
        crf, scale = self._coder.code(_CRF, crf), self._coder.code(_SCALE, scale)
        if not (1 <= crf and 1 <= scale):
            raise BitstreamError(
                "a group's picture size or quantiser is zero: the stream is damaged"
            )
        return crf, scale

    def code_times(
        self, length: int, interval: Interval | None, *, has_picture: bool
    ) -> tuple[Place, tuple[int, ...]]:
        """Where the frames lie, and their ticks.

        Both stand first in a packet and depend on nothing else, so they can be read alone.
        """
        return self._code_place(length, interval, has_picture), self._code_ticks(length, interval)

    def code(self, length: int, interval: Interval | None, *, has_picture: bool) -> Interval:
        """An interval of `length` frames; `has_picture`: whether a coded picture ends it.

        Raises ConfigError for an interval that cannot be stored, BitstreamError for invalid bytes.
        """
        place, ticks = self.code_times(length, interval, has_picture=has_picture)
        dissolves = self._code_dissolve(place, length, interval)
        site = Site(self._geometry, place, length)
        wanted = None if interval is None else interval.values
        values = self._code_layers(Scope.INTERVAL, site, wanted)
        samples: tuple[Sample, ...] = ()
        if has_picture:
            values |= self._code_layers(Scope.PICTURE, site, wanted)
            samples = self._code_samples(site, None if interval is None else interval.samples)
        return Interval(ticks, samples, values, place, dissolves)

    def _code_samples(self, site: Site, wanted: tuple[Sample, ...] | None) -> tuple[Sample, ...]:
        samples: list[Sample] = []
        while True:
            index = len(samples)
            value = None if wanted is None else wanted[index : index + 1]
            if not self._coder.code(_MORE, None if value is None else len(value)):
                return tuple(samples)
            if index == MAX_SAMPLES:
                raise LimitError(f"an interval has more than {MAX_SAMPLES} scaffold samples")
            sample = value[0] if value else None
            gap = self._coder.code(_GAP, None if sample is None else site.length - sample.offset)
            last = samples[-1].offset if samples else 0
            if not last < site.length - gap:
                raise LimitError("scaffold samples lie outside their interval or out of order")
            values = self._code_layers(Scope.SAMPLE, site, sample.values if sample else None)
            samples.append(Sample(site.length - gap, values))

    def _code_layers(
        self, scope: Scope, site: Site, wanted: Values | None
    ) -> dict[Layer[Any], Any]:
        values, before = {}, self._prediction.before
        for layer in self._layers[scope]:
            value = None if wanted is None else wanted.get(layer)
            values[layer] = before[layer] = layer.code(self._coder, site, before.get(layer), value)
        return values

    def _code_place(self, length: int, interval: Interval | None, has_picture: bool) -> Place:
        prediction = self._prediction
        opens_group, prediction.opens_group = prediction.opens_group, False
        may_hold = opens_group and prediction.holds and length > 1
        if interval is not None and (
            has_picture is (interval.place is Place.AFTER)
            or (interval.place is Place.BEFORE and not may_hold)
        ):
            raise ConfigError(f"frames cannot be held {interval.place.name.lower()} a picture here")
        if not has_picture:
            if opens_group or not prediction.holds:
                raise BitstreamError("a packet lacks its picture: the stream is damaged")
            return Place.AFTER
        if not may_hold:
            return Place.BETWEEN
        held = None if interval is None else int(interval.place is Place.BEFORE)
        return Place.BEFORE if self._coder.code(_HELD, held) else Place.BETWEEN

    def _code_dissolve(self, place: Place, length: int, interval: Interval | None) -> bool:
        may_dissolve = self._prediction.dissolves and place is Place.BETWEEN and length > 1
        if interval is not None and interval.dissolves and not may_dissolve:
            raise ConfigError("nothing can dissolve here")
        if not may_dissolve:
            return False
        return bool(self._coder.code(_DISSOLVES, None if interval is None else interval.dissolves))

    def _code_ticks(self, length: int, interval: Interval | None) -> tuple[int, ...]:
        clock = self._prediction.clock
        irregular = None if interval is None else int(interval.ticks != _steady(clock, length))
        is_irregular = self._coder.code(_IRREGULAR, irregular)
        ticks = []
        for n in range(length):
            tick = clock.predict()
            if is_irregular:
                value = None if interval is None else interval.ticks[n] - tick
                tick += self._coder.code(_DEVIATION, value)
            if tick < 1:
                raise BitstreamError("frame times do not rise: the stream is damaged")
            clock.advance(tick)
            ticks.append(tick)
        return tuple(ticks)


def _steady(clock: FrameClock, length: int) -> tuple[int, ...]:
    """The ticks of the next `length` frames where the clock predicts each exactly."""
    clock, ticks = copy(clock), []
    for _ in range(length):
        ticks.append(clock.predict())
        clock.advance(ticks[-1])
    return tuple(ticks)
