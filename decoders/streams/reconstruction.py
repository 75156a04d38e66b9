"""From picture packets, in order, to decoded intervals, which draw their frames, each at its time.

`StrictTimeline` is for a stream of which nothing is missing; `concealment` has the other policy. A
`Pace` says, picture by picture, whether there is time for the networks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import accumulate, islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.container import Cutter, Packet, PacketType, read_varint
from gsvc.codec.bitstream.errors import BEGINS_IN_THE_MIDDLE, BitstreamError, Limits
from gsvc.codec.bitstream.frames import Frame, Picture
from gsvc.codec.bitstream.group import Coding, GroupReader, ParsedPacket
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers import BRIGHTNESS, GUIDE, TEXTURE, brightness
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Sample, nominal_time
from gsvc.decoders.interpolation import rendering
from gsvc.decoders.keyframes.keyframe import Keyframe, KeyframeDecoder, temporal_layer

Refine = Callable[[Keyframe], Picture]
"""Turns a decoded keyframe into what is shown of it."""


class ShownKeyframe:
    """A keyframe. Its pictures, RGB uint8 (H, W, 3), are made on demand: a seek skips many."""

    def __init__(
        self, textured: Callable[[], Picture], refined: Callable[[], Picture] | None = None
    ) -> None:
        """`refined` gives what is shown; None: a frame already drawn, for a missing keyframe."""
        self._textured, self._refined = textured, refined
        self.stands_in = refined is None

    @cached_property
    def textured(self) -> Picture:
        """The picture with its texture raised: shows the motion."""
        return self._textured()

    @cached_property
    def shown(self) -> Picture:
        """The picture that is moved to the frames around it."""
        return self._refined() if self._refined else self.textured


@dataclass(frozen=True)
class DecodedInterval:
    """An interval, decoded. Frames are numbered from 1 to `interval.length`, the last one."""

    interval: Interval
    key: ShownKeyframe
    """The keyframe at its end; of frames AFTER a scene's last one, the one that they hold."""
    previous_key: ShownKeyframe | None
    """The keyframe before it, if that is known; None where a scene begins."""
    closing: Sample | None
    """The sample on the keyframe before."""
    make_renderer: rendering.MakeRenderer
    """Makes the renderer of the frames between."""

    @property
    def first(self) -> int:
        """The first frame that can be drawn: of those BETWEEN, the last if no key is before."""
        is_cut = self.previous_key is None and self.interval.place is Place.BETWEEN
        return self.interval.length if is_cut else 1

    @property
    def start(self) -> ShownKeyframe | None:
        """The keyframe that its frames go on from."""
        return self.key if self.interval.place is Place.AFTER else self.previous_key

    def is_key(self, number: int) -> bool:
        """Whether a frame is the keyframe itself."""
        return number == self.interval.length and self.interval.place is not Place.AFTER

    def picture(self, number: int) -> Picture:
        """A frame from `first` on, RGB uint8 (H, W, 3)."""
        interval = self.interval
        if self.is_key(number):
            drawn = self.key.shown
        elif interval.place is Place.BETWEEN:
            drawn = self._renderer.picture(number)
        else:
            time = number if interval.place is Place.AFTER else interval.length - number
            drawn = rendering.held_picture(self.key.shown, interval, time)
        steps = interval[BRIGHTNESS]
        return drawn if steps is None else brightness.brightened(drawn, steps[number - 1])

    def confidence(self, number: int) -> NDArray[np.float32]:
        """How far motion there and back agrees in a frame, float32 (H, W), 0 to 1.

        1 at the keyframe and in frames that hold one or dissolve: they have no motion.
        """
        interval = self.interval
        is_moved = interval.place is Place.BETWEEN and not interval.dissolves
        if self.is_key(number) or not is_moved:
            return np.ones(self.key.textured.shape[:2], np.float32)
        return self._renderer.confidence(number)

    @cached_property
    def _renderer(self) -> rendering.Renderer:
        assert self.previous_key is not None  # of the frames from `first` on
        return self.make_renderer(
            self.previous_key.textured,
            self.key.textured,
            self.interval,
            self.closing,
            drawn=(self.previous_key.shown, self.key.shown),
        )


class Reconstruction:
    """Decodes the packets of a group one after the other."""

    def __init__(
        self,
        header: Header,
        reader: GroupReader,
        refine: Refine,
        make_renderer: rendering.MakeRenderer = rendering.IntervalRenderer,
    ) -> None:
        self._header, self._reader, self._refine = header, reader, refine
        self._make_renderer = make_renderer
        self._size = header.format.width, header.format.height
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next packet must be INTRA."""
        self._reader.forget()
        self._forget_picture()
        self._slots: dict[int, KeyframeDecoder] = {}  # of AV1 sequences that shots come back to
        self._decoder: KeyframeDecoder | None = None
        self._coding: Coding | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the keyframe before the next packet is known."""
        return self._key is not None

    def lose_track(self) -> None:
        """Packets are missing: go on at a shot of which none is."""
        self._reader.lose_track()
        self._forget_picture()

    def _forget_picture(self) -> None:
        self._key: ShownKeyframe | None = None
        self._closing: Sample | None = None

    def read(self, packet: Packet) -> ParsedPacket:
        """Parse the next packet, whose `intervals` must follow.

        Raises BitstreamError when it is damaged or not the next one; its sequence is over then.
        """
        try:
            return self._reader.read(packet)
        except BitstreamError:
            self._forget_picture()
            raise

    def intervals(self, parsed: ParsedPacket) -> Iterator[DecodedInterval]:
        """Decode a packet's pictures one after the other, each with the frames before it.

        Raises BitstreamError for a picture that is damaged; its sequence is over then.
        """
        units, opens = iter(parsed.units), parsed.opens_shot
        if parsed.is_intra:
            self._slots.clear()
        if parsed.begins:
            self._slots[parsed.slot] = KeyframeDecoder(
                self._size, self._header.format.color, companded=parsed.coding.companded
            )
        self._decoder, self._coding = self._slots[parsed.slot], parsed.coding
        for interval in parsed.intervals:
            key = self._key
            if interval.place is not Place.AFTER:
                try:
                    key = self._keyframe(next(units), interval)
                except BitstreamError:  # what goes on from this picture cannot be decoded
                    self._reader.end_sequence()
                    self._forget_picture()
                    raise
            assert key is not None  # the reader refuses a group that begins AFTER
            begins = opens and (interval.place is Place.BEFORE or interval.length == 1)
            decoded = self._decoded(interval, key, None if begins else self._key)
            self._key, self._closing, opens = key, interval.closing_sample, False
            yield decoded

    def pictures(
        self, packet: Packet, ticks: Sequence[int], previous_key: ShownKeyframe | None
    ) -> Iterator[DecodedInterval]:
        """Decode the keyframes of a packet after a lost one, without their scaffold.

        `ticks`: times for its frames; `previous_key`: what they begin with. Raises BitstreamError
        where one cannot be told from the packet alone; not every picture builds on the lost ones.
        """
        if self._decoder is None or self._coding is None:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        lengths, units = self._reader.read_pictures(packet, self._coding)
        left = iter(ticks)
        for length, unit in zip(lengths, units, strict=False):
            interval = Interval(tuple(islice(left, length)))
            key = self._keyframe(unit, interval)
            yield self._decoded(interval, key, previous_key)
            previous_key = key

    def _decoded(
        self, interval: Interval, key: ShownKeyframe, previous_key: ShownKeyframe | None
    ) -> DecodedInterval:
        make = partial(self._make_renderer, estimator=self._header.motion_estimator)
        return DecodedInterval(interval, key, previous_key, self._closing, make)

    def _keyframe(self, unit: bytes, interval: Interval) -> ShownKeyframe:
        """The keyframe that a temporal unit holds, decoded now; RGB is made when asked for."""
        # The reader refuses a stream that begins otherwise than with an intra picture.
        assert self._decoder is not None and self._coding is not None
        coding = self._coding
        layer = temporal_layer(self._decoder.count)
        picture = self._decoder.decode_lazily(unit, Geometry(*self._size).coded_size(coding.scale))
        texture, guide = interval[TEXTURE], interval[GUIDE]

        @cache
        def key() -> Keyframe:
            return Keyframe.of(picture(), texture, coding.crf, coding.scale, layer, guide)

        return ShownKeyframe(lambda: key().picture, lambda: self._refine(key()))


@dataclass(frozen=True)
class DrawnFrame:
    """A frame as motion draws it, and where it is from."""

    frame: Frame
    interval: DecodedInterval | None = None
    """None for a frame that was made up."""
    number: int = 0
    """Which frame of the interval it is, from 1."""


_FAR = 512
"""Packets ahead: a number farther from the last one may be wrong (docs/wire.md, section 6)."""


@dataclass(frozen=True)
class PacketArrival:
    """A packet's place among the packets before it."""

    number: int
    """Number of the packet; if it has none, the next one."""
    missing: int
    """Packets that are missing before it; below 0 where it comes too late."""
    begins: bool
    """Whether no packet came before it, or it is not known which."""


class PacketTimeline:
    """Counts packets and keeps the clock of one stream."""

    def __init__(self, header: Header, limits: Limits) -> None:
        self.frame_ticks = header.frame_ticks
        self.most_frames = limits.longest_interval(header.format.width, header.format.height)
        self.reset()

    def reset(self) -> None:
        """Forget everything: any packet may be the first."""
        self.lose_track()
        self.clock = -nominal_time(1, self.frame_ticks)
        """Time of the last frame of the packets so far."""
        self._usual = 1

    def lose_track(self) -> None:
        """Any packet may come next; times go on."""
        self._is_sure = False  # that the last number is right: another one bears it out
        self.next: int | None = None
        """Number of the packet that comes next, if it is known."""

    def arrive(self, packet: Packet) -> PacketArrival:
        """Note that a packet came; one that comes too late changes nothing."""
        begins = self.next is None
        expected = self.next or 0
        number = expected if packet.number is None else packet.number
        missing = 0 if begins else number - expected
        if missing < -_FAR // 2 and not self._is_sure:  # the last number was wrong
            missing = 1
        if missing >= 0:
            self._is_sure = not begins and missing <= _FAR
            self.next = number + 1
        return PacketArrival(number, missing, begins)

    def times(
        self, packet: Packet, ticks: Sequence[int], *, missing: int = 0, anew: bool
    ) -> list[int]:
        """Times of a packet's frames, `ticks` apart.

        They go on from those before, with gaps for missing packets; `anew`: the packet's, if any.
        """
        if anew and packet.pts is not None:
            start = packet.pts - sum(ticks)
        else:
            # Where more are missing than receivers can count, the number is wrong.
            gap = 0 if missing >> 16 else min(missing * self._usual, self.most_frames)
            start = self.clock + nominal_time(gap, self.frame_ticks)
        times = list(accumulate(ticks, initial=start))[1:]
        self.clock, self._usual = times[-1], len(ticks)
        return times


class StrictTimeline:
    """Frames of a stream of which nothing is missing. Raises BitstreamError for any other."""

    def __init__(self, header: Header, reconstruction: Reconstruction, limits: Limits) -> None:
        self._timeline = PacketTimeline(header, limits)
        self._reconstruction = reconstruction
        self._may_join, self._is_counted = False, True

    def reset(self) -> None:
        """Forget everything: the stream may be joined at any INTRA packet."""
        self._timeline.reset()
        self._reconstruction.reset()
        self._may_join, self._is_counted = True, False

    def frames(self, packet: Packet, wanted: range | None = None) -> Iterator[DrawnFrame]:
        """The frames of a packet, one at a time. If the keyframe before it was not received, only
        those from the packet's first keyframe on.

        `wanted`: the times at which they are wanted; None: all.
        """
        for decoded, times in self.intervals(packet):
            for number in range(decoded.first, len(times) + 1):
                if wanted is None or times[number - 1] in wanted:
                    frame = Frame(decoded.picture(number), times[number - 1])
                    yield DrawnFrame(frame, decoded, number)

    def skip(self, packet: Packet) -> None:
        """Take in a packet without drawing its frames."""
        for _ in self.intervals(packet):
            pass

    def intervals(self, packet: Packet) -> Iterator[tuple[DecodedInterval, list[int]]]:
        """The packet's intervals, decoded, and the times of their frames."""
        if packet.type == PacketType.END:
            self._check_end(packet)
        if not packet.is_picture:
            return
        arrival = self._timeline.arrive(packet)
        if arrival.begins:
            self._is_counted = packet.number is not None or not self._may_join
        if arrival.missing:
            self._lose_track()
            following = "this one, which is intra, again" if packet.is_intra else "an intra one"
            told = "packets were lost" if arrival.missing > 0 else "it is late, or came twice"
            raise BitstreamError(
                f"picture packet {arrival.number} follows {arrival.number - arrival.missing - 1}: "
                f"{told}; pass {following} to go on, and reset() before a seek"
            )
        self._may_join |= arrival.begins and arrival.number > 0
        anew = not self._reconstruction.goes_on
        parsed = self._reconstruction.read(packet)
        times = self._timeline.times(packet, parsed.ticks, anew=anew)
        for decoded in self._reconstruction.intervals(parsed):
            if decoded.first > 1 and not self._may_join:
                self._lose_track()
                raise BitstreamError(BEGINS_IN_THE_MIDDLE)
            length = decoded.interval.length
            yield decoded, times[:length]
            times = times[length:]

    def _check_end(self, end: Packet) -> None:
        declared, found = read_varint(Cutter(end.payload).take), self._timeline.next or 0
        # Of numbers, the network tells 16 bits.
        if self._is_counted and (declared - found) % (1 << 16):
            why = f"picture packets from {found} on were lost: the stream's end counts {declared}"
            raise BitstreamError(why)

    def _lose_track(self) -> None:
        self._reconstruction.lose_track()
        self._timeline.lose_track()
        self._may_join, self._is_counted = True, False


REFINING, MOTION = "refining", "motion"
"""Works that a pace decides on: restoring a keyframe, learned motion up to the next one."""


class Pace(Protocol):
    """Decides what a decoder has time for."""

    def may(self, work: str) -> bool:
        """Whether there is time for the next `REFINING` or `MOTION`: asked once for each."""

    def took(self, work: str, seconds: float) -> None:
        """Note the seconds that a part of such work took."""


@runtime_checkable
class StepPace(Pace, Protocol):
    """A pace that may also shorten a refiner's loop."""

    def steps(self, most: int) -> int:
        """How many of `most` steps there is time for, 1 or more: asked after `may` said yes."""


def paced_refine(refine: Callable[[Keyframe, int], Picture], steps: int, pace: Pace) -> Refine:
    """Restore in `steps` steps, or as many as there is time for; else keep the decoded picture."""

    def refine_in_time(key: Keyframe) -> Picture:
        if not pace.may(REFINING):
            return key.picture
        taken = pace.steps(steps) if isinstance(pace, StepPace) else steps
        return _timed(pace, REFINING, lambda: refine(key, taken))

    return refine_in_time


def paced_motion(make: rendering.MakeRenderer, pace: Pace) -> rendering.MakeRenderer:
    """The same where there is time for it; else motion is what `IntervalRenderer` finds."""

    def make_in_time(*given: Any, **more: Any) -> rendering.Renderer:
        if not pace.may(MOTION):
            return rendering.IntervalRenderer(*given, **more)
        return _TimedRenderer(make(*given, **more), pace)

    return make_in_time


class _TimedRenderer:
    def __init__(self, renderer: rendering.Renderer, pace: Pace) -> None:
        self._renderer, self._pace = renderer, pace

    def picture(self, offset: int) -> Picture:
        return _timed(self._pace, MOTION, lambda: self._renderer.picture(offset))

    def confidence(self, offset: int) -> NDArray[np.float32]:
        return self._renderer.confidence(offset)


def _timed(pace: Pace, work: str, make: Callable[[], Picture]) -> Picture:
    began = time.monotonic()
    made = make()
    pace.took(work, time.monotonic() - began)
    return made
