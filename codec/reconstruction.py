"""From picture packets, in order, to pictures. Nothing here knows of loss or of time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Picture
from gsvc.codec.header import Header
from gsvc.codec.packet import Packet
from gsvc.codec.payload import split_payload
from gsvc.codec.scaffold import Geometry, Interval, Place, Sample
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.rendering import (
    IntervalRenderer,
    Rendering,
    held_picture,
    held_rendering,
    still_rendering,
)
from gsvc.decoders.texture import raise_texture

if TYPE_CHECKING:
    from gsvc.codec.decoder import ScaffoldPacket, ScaffoldParser


class Refine(Protocol):
    """Turns renderings of consecutive frames into pictures."""

    def __call__(self, renderings: Iterator[Rendering]) -> Iterator[Picture]: ...


@dataclass(frozen=True)
class Step:
    """A picture packet, decoded: its interval, the key picture that ends it or is held, and for frames BETWEEN the one
    before, if it is known, with the sample on it. `quantizer`: crf / 63."""

    interval: Interval
    picture: Picture
    before: Picture | None
    closing: Sample | None
    quantizer: float


@dataclass(frozen=True)
class _Drawing:
    """How to draw a frame: as a picture alone, or with all that a refiner looks at, which is twice the work."""

    picture: Callable[[], Picture]
    rendering: Callable[[], Rendering]


class Reconstruction:
    """Decodes the packets of a group one after the other; `drawn` is the last picture before refinement."""

    def __init__(self, header: Header, parser: "ScaffoldParser", refine: Refine | None) -> None:
        self._header, self._parser, self._refine = header, parser, refine
        self._size = header.format.width, header.format.height
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next packet must be INTRA."""
        self.end_group()
        self._pictures: PictureDecoder | None = None
        self._coded_size = self._size
        self.drawn: Picture | None = None

    def end_group(self) -> None:
        """Neither the group nor frames since its last key picture can be decoded any further."""
        self._parser.end_group()
        self._key: Picture | None = None
        self._closing: Sample | None = None
        self._quantizer = 1.0

    def read(self, packet: Packet) -> Step:
        """Decode the next packet. Raises BitstreamError when it is damaged or not the next one; the group is over then."""
        try:
            parsed, _ = self._parser.parse(packet)
            picture = self._picture(parsed)
        except BitstreamError:
            self.end_group()
            raise
        interval = parsed.interval
        self._quantizer = min(1.0, parsed.crf / 63)
        step = Step(interval, picture, self._key, self._closing, self._quantizer)
        self._key, self._closing = picture, interval.closing_sample
        return step

    def read_picture(self, packet: Packet, ticks: tuple[int, ...]) -> Step:
        """Decode the key picture of a packet whose scaffold builds on a missing one, for frames at `ticks`.

        Raises BitstreamError where the picture builds on the missing one too. (Not every picture is built upon.)
        """
        _, unit = split_payload(packet.payload)
        if self._pictures is None or not unit:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        picture = self._pictures.decode(unit, self._coded_size)
        return Step(Interval(ticks), picture, self.drawn, None, self._quantizer)

    def draw(self, step: Step, skip: int = 0) -> Iterator[Picture]:
        """The frames of the packet but the first `skip`, one at a time."""
        return self._drawn(self._drawings(step, skip))

    def still(self, pictures: Iterable[Picture]) -> Iterator[Picture]:
        """Frames made of nothing but these pictures."""
        return self._drawn(_still(picture, None, self._quantizer) for picture in pictures)

    def _drawn(self, drawings: Iterable[_Drawing]) -> Iterator[Picture]:
        """Draw, refine, and keep what was drawn last."""
        if self._refine is None:
            for drawing in drawings:
                self.drawn = drawing.picture()
                yield self.drawn
        else:
            yield from self._refine(self._renderings(drawings))

    def _renderings(self, drawings: Iterable[_Drawing]) -> Iterator[Rendering]:
        for drawing in drawings:
            rendering = drawing.rendering()
            self.drawn = rendering.picture
            yield rendering

    def _picture(self, parsed: "ScaffoldPacket") -> Picture:
        """The packet's key picture as it is shown; without one, the key picture before."""
        if parsed.interval.place is Place.AFTER:
            assert self._key is not None  # the parser refuses a group that begins so
            return self._key
        if parsed.is_intra:
            self._pictures = PictureDecoder(self._size, self._header.format.color)
            self._coded_size = Geometry(*self._size).coded_size(parsed.eighths)
        assert self._pictures is not None  # the parser refuses a stream that begins otherwise
        decoded = self._pictures.decode(parsed.unit, self._coded_size)
        return raise_texture(decoded, parsed.interval.texture)

    def _drawings(self, step: Step, skip: int) -> Iterator[_Drawing]:
        interval, picture, quantizer = step.interval, step.picture, step.quantizer
        length = interval.length
        if interval.place is Place.AFTER:
            for offset in range(skip + 1, length + 1):
                yield _held(picture, interval, offset, quantizer)
            return
        if interval.place is Place.BEFORE:
            for offset in range(skip + 1, length):
                yield _held(picture, interval, length - offset, quantizer)
        elif step.before is not None and skip + 1 < length:
            estimator = self._header.motion_estimator
            renderer = IntervalRenderer(
                step.before, picture, interval, step.closing, quantizer, estimator
            )
            for offset in range(skip + 1, length):
                yield _Drawing(partial(renderer.picture, offset), partial(renderer.render, offset))
        if skip < length:
            yield _still(picture, interval.closing_sample, quantizer)


def _still(picture: Picture, sample: Sample | None, quantizer: float) -> _Drawing:
    return _Drawing(lambda: picture, partial(still_rendering, picture, sample, quantizer))


def _held(picture: Picture, interval: Interval, time: int, quantizer: float) -> _Drawing:
    camera, place, length = interval.camera, interval.place, interval.length
    return _Drawing(
        partial(held_picture, picture, camera, place, length, time),
        partial(held_rendering, picture, interval, time, quantizer),
    )
