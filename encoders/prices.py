"""What samples cost: their bits, counted by the coder that will write them."""

from gsvc.codec.scaffold.layer import Scope, Site
from gsvc.codec.scaffold.layers import LAYERS
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Sample
from gsvc.codec.stream.header import Header


class SamplePrices:
    """Counts the bits of a stream's samples. Models begin anew: what they will have learned by then
    is not known in a trial."""

    def __init__(self, header: Header) -> None:
        self._geometry = header.geometry
        self._layers = [
            layer for layer in LAYERS if layer.scope is Scope.SAMPLE and layer.name in header.tools
        ]

    def bits(self, sample: Sample, before: Sample | None, length: int) -> float:
        """Bits of a sample in an interval of `length` frames, predicted from `before`."""
        site = Site(self._geometry, Place.BETWEEN, length)
        return sum(
            layer.bits(site, None if before is None else before[layer], sample[layer])
            for layer in self._layers
        )
