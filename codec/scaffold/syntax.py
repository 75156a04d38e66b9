"""The syntax of a group and of an interval: the values of its layers.

Each function takes the value to write, or None for a reader, and returns the value. Contexts and
predictions depend on integers that were coded before, never on floating point.
"""

from dataclasses import dataclass
from typing import Any

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.scaffold.coder import FLAG, UNSIGNED, Coder, Element
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Layer, Scope, Site
from gsvc.codec.scaffold.layers import ALL_LAYERS
from gsvc.codec.scaffold.layers.faces import FACES
from gsvc.codec.scaffold.layers.objects import OBJECT_ELEMENTS
from gsvc.codec.scaffold.layout import LAYOUT_ELEMENTS, Span
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.tools import Tools
from gsvc.codec.scaffold.types import Interval, Sample, Values
from gsvc.codec.scaffold.unit import UNIT_ELEMENTS

MAX_SAMPLES = 15
"""Most samples of an interval."""

_CRF = Element("picture.crf", "key pictures", UNSIGNED, 70)
_EIGHTHS = 8
_SCALE = Element("picture.eighths", "key pictures", UNSIGNED, 2 * _EIGHTHS)
_ALONE = Element("packet.alone", "key pictures", FLAG)
_DISSOLVES = Element("interval.dissolves", "timing", FLAG)
_MORE = Element("sample.more", "timing", FLAG)
_GAP = Element("sample.gap", "timing", UNSIGNED, 2048)

ELEMENTS = (
    *(_CRF, _SCALE, _ALONE, *LAYOUT_ELEMENTS, *UNIT_ELEMENTS, _DISSOLVES, _MORE, _GAP),
    *(element for layer in ALL_LAYERS for element in layer.elements),
    *OBJECT_ELEMENTS,
)
"""Every syntax element of the scaffold and of objects."""


@dataclass(frozen=True)
class Coding:
    """How the pictures of a group are coded."""

    crf: int
    """Their quantiser, 1 to 70."""
    scale: int
    """Their size in eighths of the display size, 1 to 8."""
    alone: bool = False
    """Whether layout and pictures of each packet can be read without the packets before: where
    packets get lost, what is shown is not lost with them."""
    faces: bool = False
    """Whether the group has the layer of faces."""


def code_coding(coder: Coder, coding: Coding | None) -> Coding:
    """The coding of a group. Raises BitstreamError when its quantiser or size is read as 0."""
    crf = coder.code(_CRF, None if coding is None else coding.crf)
    # A scale beyond 8, which older decoders refuse, says that there are faces.
    more = None if coding is None else coding.scale + _EIGHTHS * coding.faces
    scale = coder.code(_SCALE, more)
    if not (1 <= crf and 1 <= scale):
        raise BitstreamError("a group's picture size or quantiser is zero: the stream is damaged")
    alone = bool(coder.code(_ALONE, None if coding is None else coding.alone))
    faces = scale > _EIGHTHS
    return Coding(crf, scale - _EIGHTHS * faces, alone, faces)


class IntervalCoder:
    """Codes the intervals of one group, in order, with `coder`."""

    def __init__(
        self, coder: Coder, geometry: Geometry, tools: Tools, *, faces: bool = False
    ) -> None:
        """`tools`: layers that the header switches on; `faces`: whether the group has faces."""
        names = tools.names | ({FACES.name} if faces else set())
        self._coder, self._geometry = coder, geometry
        self._layers = {
            scope: [layer for layer in ALL_LAYERS if layer.scope is scope and layer.name in names]
            for scope in Scope
        }
        self._before: dict[Layer[Any], Any] = {}
        """The last value of each layer."""

    def code(self, span: Span, interval: Interval | None) -> Interval:
        """The interval with this layout.

        Raises ConfigError for an interval that cannot be stored, BitstreamError for invalid bytes.
        """
        dissolves = self._code_dissolve(span, interval)
        site = Site(self._geometry, span.place, span.length)
        wanted = None if interval is None else interval.values
        values = self._code_layers(Scope.INTERVAL, site, wanted)
        samples: tuple[Sample, ...] = ()
        if span.has_picture:
            values |= self._code_layers(Scope.PICTURE, site, wanted)
            samples = self._code_samples(site, None if interval is None else interval.samples)
        return Interval(span.ticks, samples, values, span.place, dissolves)

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
        values, before = {}, self._before
        for layer in self._layers[scope]:
            value = None if wanted is None else wanted.get(layer)
            values[layer] = before[layer] = layer.code(self._coder, site, before.get(layer), value)
        return values

    def _code_dissolve(self, span: Span, interval: Interval | None) -> bool:
        may_dissolve = span.place is Place.BETWEEN and span.length > 1
        if interval is not None and interval.dissolves and not may_dissolve:
            raise ConfigError("nothing can dissolve here")
        if not may_dissolve:
            return False
        return bool(self._coder.code(_DISSOLVES, None if interval is None else interval.dissolves))
