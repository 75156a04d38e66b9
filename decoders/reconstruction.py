"""From picture packets, in order, to pictures. Nothing here knows of loss or of time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.texture import TEXTURE, Texture
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.codec.stream.group import GroupReader, ParsedInterval, split_payload
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.rendering import IntervalRenderer, held_picture

Refine = Callable[[KeyPicture], Picture]
"""Turns a decoded key picture into what is shown of it."""


class ShownKey:
    """A key picture: `decoded`, on which motion is estimated, and `shown`, refined when it is first needed."""

    def __init__(self, key: KeyPicture, refine: Refine) -> None:
        self.decoded = key.picture
        self._key, self._refine = key, refine

    @cached_property
    def shown(self) -> Picture:
        """What is moved to the frames around it, RGB uint8 (H, W, 3)."""
        return self._refine(self._key)


@dataclass(frozen=True)
class DrawnKey:
    """A frame already drawn, in the place of a key picture that is missing."""

    decoded: Picture

    @property
    def shown(self) -> Picture:
        """The frame as it is."""
        return self.decoded


@dataclass(frozen=True)
class Step:
    """A picture packet, decoded: its interval, the key picture that ends it or is held, and for frames BETWEEN the one
    before, if it is known, with the sample on it."""

    interval: Interval
    key: ShownKey
    before: ShownKey | DrawnKey | None
    closing: Sample | None


class Reconstruction:
    """Decodes the packets of a group one after the other; `drawn` is the last picture that was drawn."""

    def __init__(self, header: Header, parser: GroupReader, refine: Refine) -> None:
        self._header, self._parser, self._refine = header, parser, refine
        self._size = header.format.width, header.format.height
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next packet must be INTRA."""
        self.end_group()
        self._pictures: PictureDecoder | None = None
        self._coding: tuple[int, int] | None = None
        self.drawn: Picture | None = None

    def end_group(self) -> None:
        """Neither the group nor frames since its last key picture can be decoded any further."""
        self._parser.end_group()
        self._key: ShownKey | None = None
        self._closing: Sample | None = None

    def read(self, packet: Packet) -> Step:
        """Decode the next packet. Raises BitstreamError when it is damaged or not the next one; the group is over then."""
        try:
            parsed = self._parser.read(packet)
            key = self._read_key(parsed)
        except BitstreamError:
            self.end_group()
            raise
        interval = parsed.interval
        step = Step(interval, key, self._key, self._closing)
        self._key, self._closing = key, interval.closing_sample
        return step

    def read_picture(self, packet: Packet, ticks: tuple[int, ...]) -> Step:
        """Decode the key picture of a packet whose scaffold builds on a missing one, for frames at `ticks`.

        Raises BitstreamError where the picture builds on the missing one too. (Not every picture is built upon.)
        """
        _, unit = split_payload(packet.payload)
        if self._pictures is None or not unit:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        before = None if self.drawn is None else DrawnKey(self.drawn)
        return Step(Interval(ticks), self._decoded(unit, None), before, None)

    def draw(self, step: Step, skip: int = 0) -> Iterator[Picture]:
        """The frames of the packet but the first `skip`, one at a time."""
        return self.kept(self._frames(step, skip))

    def kept(self, pictures: Iterator[Picture]) -> Iterator[Picture]:
        """The same pictures; keeps what was drawn last."""
        for picture in pictures:
            self.drawn = picture
            yield picture

    def _read_key(self, parsed: ParsedInterval) -> ShownKey:
        """The packet's key picture; without one, the key picture before."""
        if parsed.interval.place is Place.AFTER:
            assert self._key is not None  # the parser refuses a group that begins so
            return self._key
        if parsed.is_intra:
            self._pictures = PictureDecoder(self._size, self._header.format.color)
            self._coding = parsed.crf, parsed.scale
        return self._decoded(parsed.unit, parsed.interval[TEXTURE])

    def _decoded(self, unit: bytes, texture: Texture | None) -> ShownKey:
        # The parser refuses a stream that begins otherwise than with an intra picture.
        assert self._pictures is not None and self._coding is not None
        crf, scale = self._coding
        picture = self._pictures.decode(unit, Geometry(*self._size).coded_size(scale))
        return ShownKey(KeyPicture.of(picture, texture, crf, scale), self._refine)

    def _frames(self, step: Step, skip: int) -> Iterator[Picture]:
        interval, length = step.interval, step.interval.length
        if interval.place is Place.BETWEEN:
            if step.before is not None and skip + 1 < length:
                renderer = self._renderer(step, step.before)
                for offset in range(skip + 1, length):
                    yield renderer.picture(offset)
        else:
            is_after = interval.place is Place.AFTER
            for offset in range(skip + 1, length + is_after):
                time = offset if is_after else length - offset
                yield held_picture(step.key.shown, interval, time)
        if skip < length and interval.place is not Place.AFTER:
            yield step.key.shown

    def _renderer(self, step: Step, before: ShownKey | DrawnKey) -> IntervalRenderer:
        return IntervalRenderer(
            before.decoded,
            step.key.decoded,
            step.interval,
            step.closing,
            self._header.motion_estimator,
            drawn=(before.shown, step.key.shown),
        )
