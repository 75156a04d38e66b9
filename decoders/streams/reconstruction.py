"""From picture packets, in order, to decoded intervals, which draw their frames."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import Coding, GroupReader, ParsedPacket
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.texture import TEXTURE, Texture
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Sample
from gsvc.decoders.interpolation.rendering import (
    IntervalRenderer,
    MakeRenderer,
    Renderer,
    held_picture,
)
from gsvc.decoders.keyframes.keyframe import Keyframe, KeyframeDecoder, temporal_layer

Refine = Callable[[Keyframe], Picture]
"""Turns a decoded keyframe into what is shown of it."""


class ShownKeyframe:
    """A keyframe: `decoded`, on which motion is estimated, and `shown`."""

    def __init__(self, decoded: Picture, refined: Callable[[], Picture] | None = None) -> None:
        """`refined` gives what is shown; None: a frame already drawn, for a missing keyframe."""
        self.decoded, self.stands_in = decoded, refined is None
        self._refined = refined

    @cached_property
    def shown(self) -> Picture:
        """What is moved to the frames around it, RGB uint8 (H, W, 3); refined when first needed."""
        return self._refined() if self._refined else self.decoded


@dataclass(frozen=True)
class DecodedInterval:
    """An interval, decoded. Frames are numbered from 1 to `interval.length`, the last one."""

    interval: Interval
    key: ShownKeyframe
    """The keyframe at its end; of frames AFTER a scene's last one, the one that they hold."""
    before: ShownKeyframe | None
    """The keyframe before it, if that is known; None where a scene begins."""
    closing: Sample | None
    """The sample on the keyframe before."""
    make_renderer: MakeRenderer
    """What draws the frames between."""

    @property
    def first(self) -> int:
        """The first frame that can be drawn: of those BETWEEN, only the last without `before`."""
        is_cut = self.before is None and self.interval.place is Place.BETWEEN
        return self.interval.length if is_cut else 1

    @property
    def start(self) -> ShownKeyframe | None:
        """The keyframe that its frames go on from."""
        return self.key if self.interval.place is Place.AFTER else self.before

    def is_key(self, number: int) -> bool:
        """Whether a frame is the keyframe itself."""
        return number == self.interval.length and self.interval.place is not Place.AFTER

    def picture(self, number: int) -> Picture:
        """A frame from `first` on, RGB uint8 (H, W, 3)."""
        interval = self.interval
        if self.is_key(number):
            return self.key.shown
        if interval.place is Place.BETWEEN:
            return self._renderer.picture(number)
        time = number if interval.place is Place.AFTER else interval.length - number
        return held_picture(self.key.shown, interval, time)

    def confidence(self, number: int) -> NDArray[np.float32]:
        """How far motion there and back agrees in a frame, float32 (H, W), 0 to 1.

        1 at the keyframe and in frames that hold one or dissolve: no motion is estimated for
        them.
        """
        interval = self.interval
        is_moved = interval.place is Place.BETWEEN and not interval.dissolves
        if self.is_key(number) or not is_moved:
            return np.ones(self.key.decoded.shape[:2], np.float32)
        return self._renderer.confidence(number)

    @cached_property
    def _renderer(self) -> Renderer:
        assert self.before is not None  # of the frames from `first` on
        return self.make_renderer(
            self.before.decoded,
            self.key.decoded,
            self.interval,
            self.closing,
            drawn=(self.before.shown, self.key.shown),
        )


class Reconstruction:
    """Decodes the packets of a group one after the other."""

    def __init__(
        self,
        header: Header,
        reader: GroupReader,
        refine: Refine,
        make_renderer: MakeRenderer = IntervalRenderer,
    ) -> None:
        self._header, self._reader, self._refine = header, reader, refine
        self._make_renderer = make_renderer
        self._size = header.format.width, header.format.height
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next packet must be INTRA."""
        self.end_group()
        self._pictures: KeyframeDecoder | None = None
        self._coding: Coding | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the keyframe before the next packet is known."""
        return self._key is not None

    def end_group(self) -> None:
        """Neither the group nor frames since its last keyframe can be decoded any further."""
        self._reader.end_group()
        self._key: ShownKeyframe | None = None
        self._closing: Sample | None = None

    def read(self, packet: Packet) -> ParsedPacket:
        """Parse the next packet, whose `intervals` must follow.

        Raises BitstreamError when it is damaged or not the next one; the group is over then.
        """
        try:
            return self._reader.read(packet)
        except BitstreamError:
            self.end_group()
            raise

    def intervals(self, parsed: ParsedPacket) -> Iterator[DecodedInterval]:
        """Decode a packet's pictures one after the other, each with the frames before it.

        Raises BitstreamError for a picture that is damaged; the group is over then.
        """
        units, opens = iter(parsed.units), parsed.is_intra
        if opens:
            self._pictures = KeyframeDecoder(self._size, self._header.format.color)
            self._coding = parsed.coding
        for interval in parsed.intervals:
            key = self._key
            if interval.place is not Place.AFTER:
                try:
                    key = self._decoded(next(units), interval[TEXTURE])
                except BitstreamError:
                    self.end_group()
                    raise
            assert key is not None  # the reader refuses a group that begins AFTER
            begins = opens and (interval.place is Place.BEFORE or interval.length == 1)
            decoded = self._interval(interval, key, None if begins else self._key)
            self._key, self._closing, opens = key, interval.closing_sample, False
            yield decoded

    def pictures(
        self, packet: Packet, ticks: Sequence[int], before: ShownKeyframe | None
    ) -> Iterator[DecodedInterval]:
        """Decode the keyframes of a packet after a lost one, without their scaffold.

        `ticks`: times for its frames; `before`: what they begin with. Raises BitstreamError where
        one cannot be told from the packet alone; not every picture builds on the lost ones.
        """
        if self._pictures is None or self._coding is None:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        lengths, units = self._reader.read_pictures(packet, self._coding)
        left = iter(ticks)
        for length, unit in zip(lengths, units, strict=False):
            key = self._decoded(unit, None)
            yield self._interval(Interval(tuple(islice(left, length))), key, before)
            before = key

    def _interval(
        self, interval: Interval, key: ShownKeyframe, before: ShownKeyframe | None
    ) -> DecodedInterval:
        closing, make = self._closing, self._make_renderer
        return DecodedInterval(interval, key, before, closing, make)

    def _decoded(self, unit: bytes, texture: Texture | None) -> ShownKeyframe:
        # The reader refuses a stream that begins otherwise than with an intra picture.
        assert self._pictures is not None and self._coding is not None
        coding = self._coding
        layer = temporal_layer(self._pictures.count)
        picture = self._pictures.decode(unit, Geometry(*self._size).coded_size(coding.scale))
        key = Keyframe.of(picture, texture, coding.crf, coding.scale, layer)
        return ShownKeyframe(key.picture, partial(self._refine, key))
