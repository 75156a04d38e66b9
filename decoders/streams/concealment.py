"""Concealment: a missing, late or damaged packet never stops the picture.

Frames whose packet is not there are made of what is: the last two keyframes' motion carried on for
one interval at most, then a still; up to a new keyframe, the motion towards it. All of them are
flagged. The next INTRA packet heals, and so does a lost packet that arrives after all; before that,
keyframes that do not build on the missing one are shown. Where an encoder begins anew, so do they.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor

import cv2
import numpy as np

from gsvc.codec.bitstream.container import Packet, PacketType
from gsvc.codec.bitstream.errors import BitstreamError, Limits
from gsvc.codec.bitstream.frames import Frame, Picture
from gsvc.codec.bitstream.group import ParsedPacket
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.scaffold import Place, nominal_time
from gsvc.decoders.interpolation.optical_flow import Flow, dense_flow, gray, pixel_grid, trust, warp
from gsvc.decoders.streams.reconstruction import (
    DecodedInterval,
    DrawnFrame,
    PacketArrival,
    PacketTimeline,
    Reconstruction,
    ShownKeyframe,
)


class Extrapolator:
    """Continues the motion from one coded picture to the next, as far as it can be trusted."""

    def __init__(self, before: Picture, last: Picture, drawn: Picture) -> None:
        """Two successive coded pictures, RGB uint8 (H, W, 3).

        `drawn` is moved in place of `last`, from which motion is estimated.
        """
        self._before, self._last, self._drawn = before, last, drawn

    @cached_property
    def _back(self) -> Flow:
        """Motion from the last picture to the one before, scaled by trust."""
        before, last = gray(self._before), gray(self._last)
        back = dense_flow(last, before)
        return np.asarray(back * trust(back, dense_flow(before, last))[..., None], np.float32)

    def picture(self, time: float) -> Picture:
        """The picture `time` after the last one; 1 is the time between the two."""
        grid = pixel_grid(*self._last.shape[:2])
        return warp(self._drawn, grid + np.float32(time) * self._back, cv2.INTER_CUBIC)


_REMEMBERED = 64  # packets of a group that are kept for one of them that is late
_MOST_LATE = 16  # late packets with no other between: then their encoder has begun anew
_REPLAYS = 4  # how often a group is decoded again for late packets: senders decide on that


@dataclass(frozen=True)
class _CarriedMotion:
    extrapolator: Extrapolator
    time: int
    """Time of the keyframe."""
    ticks: int
    """Ticks for which it is carried on."""
    frames: int
    """Most frames made of it at once: a stream's times may lie far apart."""


class Concealer:
    """Decodes what arrives and stands in for what does not. Raises for no packet."""

    def __init__(self, header: Header, reconstruction: Reconstruction, limits: Limits) -> None:
        self._ticks = max(Fraction(1), header.frame_ticks)  # times must rise
        self._timeline = PacketTimeline(header, limits)
        self._most = self._timeline.most_frames
        self._reconstruction = reconstruction
        self._wanted: range | None = None  # times of frames; None: all
        self.reset()

    def reset(self) -> None:
        """Forget everything: the stream may be joined at any INTRA packet."""
        self._timeline.reset()
        self._reconstruction.reset()
        self._shown: Frame | None = None
        self._motion: _CarriedMotion | None = None
        self._group: int | None = None
        self._has_intra = self._is_over = False
        self._packets: dict[int, Packet] = {}
        self._replays = self._late = 0
        self._seen: dict[int, tuple[int, int]] = {}  # numbers and hashes of the last packets

    def frames(self, packet: Packet, wanted: range | None = None) -> Iterator[DrawnFrame]:
        """The missing frames before a packet, then its own. `wanted`: the times at which they are
        wanted; None: all."""
        self._wanted = wanted
        for drawn in self._all(packet):
            if wanted is None or drawn.frame.pts in wanted:
                yield drawn

    def _all(self, packet: Packet) -> Iterator[DrawnFrame]:
        """The frames that are wanted, and those that later ones may be made up of."""
        if packet.type == PacketType.END:
            self._is_over = True
            if packet.pts is not None:
                yield from self._filled(packet.pts)
        if not packet.is_picture:
            return
        arrival = self._timeline.arrive(packet)
        if arrival.missing < 0:
            if not self._begins_anew(packet, arrival.number):
                return self._take_late(packet, arrival.number)
            self.reset()
            arrival = self._timeline.arrive(packet)
        self._note(packet, arrival)
        parsed: ParsedPacket | None = None
        with suppress(BitstreamError):
            parsed = self._reconstruction.read(packet)
        ticks = parsed.ticks if parsed else self._even_ticks(packet)
        # Where a packet's time lies before those that were shown, one of them was wrong.
        goes_on = packet.pts is not None and packet.pts > self._timeline.clock
        anew = arrival.begins or goes_on
        times = self._timeline.times(packet, ticks, missing=arrival.missing, anew=anew)
        yield from self._filled(times[0] - ticks[0])
        last = None
        with suppress(BitstreamError):
            for decoded in self._decoded(packet, parsed, ticks):
                self._has_intra |= packet.is_intra
                own, times = times[: decoded.interval.length], times[decoded.interval.length :]
                yield from self._drawn(decoded, own, is_sound=parsed is not None)
                last = decoded, own[-1]
        if last is not None:
            self._set_motion(*last)
        yield from self._made_up(times)

    def skip(self, packet: Packet) -> None:
        """Take in a packet. Only frames that others may be made up of are drawn."""
        for _ in self.frames(packet, range(0)):
            pass

    def until(self, pts: int) -> Iterator[DrawnFrame]:
        """The frames that are due up to `pts`."""
        if self._shown is None:
            return
        last, self._wanted = self._shown.pts, None
        count = min(floor((pts - last) / self._ticks), self._most)
        yield from self._made_up([last + nominal_time(n, self._ticks) for n in range(1, count + 1)])

    def _note(self, packet: Packet, arrival: PacketArrival) -> None:
        """Note which group the packet belongs to; without those that are lost, it cannot go on."""
        self._late, self._is_over = 0, False
        self._seen[arrival.number % _REMEMBERED] = arrival.number, hash(bytes(packet.payload))
        if arrival.missing:
            self._reconstruction.lose_track()
        group = arrival.number if packet.is_intra else packet.group
        if group != self._group or (group is None and arrival.missing):
            self._group, self._has_intra = group, False
            self._packets, self._replays = {}, 0
        if len(self._packets) < _REMEMBERED:
            self._packets[arrival.number] = packet

    def _begins_anew(self, packet: Packet, number: int) -> bool:
        """Whether a late packet is another encoder's: INTRA after END, or too old, or not the one
        of its number; or the last of many."""
        self._late += 1
        own = number, hash(bytes(packet.payload))
        seen = self._seen.get(number % _REMEMBERED, own)
        is_other = self._is_over or (seen[0] == number and seen != own)
        if number < (self._timeline.next or 0) - _REMEMBERED:
            is_other = packet.pts is None or packet.pts <= self._timeline.clock
        return self._late == _MOST_LATE or (packet.is_intra and is_other)

    def _decoded(
        self, packet: Packet, parsed: ParsedPacket | None, ticks: Sequence[int]
    ) -> Iterator[DecodedInterval]:
        """The packet's intervals as far as they can be decoded; then a BitstreamError."""
        if parsed is not None:
            yield from self._reconstruction.intervals(parsed)
        elif self._has_intra:
            yield from self._reconstruction.pictures(packet, ticks, self._last_drawn())

    def _last_drawn(self) -> ShownKeyframe | None:
        if self._shown is None:
            return None
        pixels = self._shown.pixels
        return ShownKeyframe(lambda: pixels)

    def _take_late(self, packet: Packet, number: int) -> None:
        """When no packet of the group is missing any more, decode the group again, to go on."""
        if self._group is None or packet.group != self._group or number in self._packets:
            return
        self._packets[number] = packet
        numbers = range(self._group, self._timeline.next or 0)
        is_whole = number in numbers and all(n in self._packets for n in numbers)
        if self._replays == _REPLAYS or not is_whole:
            return
        self._replays += 1
        self._reconstruction.lose_track()
        with suppress(BitstreamError):
            for n in numbers:
                parsed = self._reconstruction.read(self._packets[n])
                for decoded in self._reconstruction.intervals(parsed):
                    last = decoded
            self._has_intra = True
            self._set_motion(last, self._timeline.clock)

    def _even_ticks(self, packet: Packet) -> tuple[int, ...]:
        """Times of the frames of a packet that cannot be read, as good as they are known."""
        count = max(1, min(packet.frames, self._most))
        total = packet.duration or nominal_time(count, self._ticks)
        times = [n * max(total, count) // count for n in range(count + 1)]
        return tuple(after - before for before, after in pairwise(times))

    def _filled(self, start: int) -> Iterator[DrawnFrame]:
        """The frames that are missing up to and including one at `start`."""
        if self._shown is None:
            return
        last = self._shown.pts
        count = round((start - last) / self._ticks)
        times = [last + n * (start - last) // count for n in range(1, min(count, self._most) + 1)]
        yield from self._made_up(times)

    def _made_up(self, times: Sequence[int]) -> Iterator[DrawnFrame]:
        """Frames for which nothing was sent: motion carried on, then a still."""
        if self._shown is None:
            return
        times, motion = times[self._not_due(times) :], self._motion
        moving: list[int] = []
        if motion is not None:
            moving = [t for t in times if t <= motion.time + motion.ticks][: motion.frames]
            for pts in (one for one in moving if self._is_drawn(moving, one)):
                pixels = motion.extrapolator.picture((pts - motion.time) / motion.ticks)
                yield self._show(DrawnFrame(Frame(pixels, pts, concealed=True)))
        for pts in times[len(moving) :]:
            yield self._show(DrawnFrame(Frame(self._shown.pixels, pts, concealed=True)))

    def _drawn(
        self, decoded: DecodedInterval, times: Sequence[int], *, is_sound: bool
    ) -> Iterator[DrawnFrame]:
        """The frames of an interval; what was shown last stands for a missing keyframe."""
        length = len(times)
        first_sound = decoded.first if is_sound else length + 1
        if decoded.first > 1 and self._shown is not None:
            interval = decoded.interval
            own = tuple(sample for sample in interval.samples if sample.offset == length)
            interval = replace(interval, samples=own, values={})
            decoded = replace(decoded, previous_key=self._last_drawn(), interval=interval)
        numbers = range(max(decoded.first, self._not_due(times) + 1), length + 1)
        for number in (one for one in numbers if self._is_drawn(times, times[one - 1])):
            frame = Frame(decoded.picture(number), times[number - 1], number < first_sound)
            yield self._show(DrawnFrame(frame, decoded, number))

    def _is_drawn(self, times: Sequence[int], pts: int) -> bool:
        """Whether a frame is wanted, or the last of these times, which later ones build on."""
        return self._wanted is None or pts == times[-1] or pts in self._wanted

    def _not_due(self, times: Sequence[int]) -> int:
        """Number of these times that were shown already, or made up at about that time."""
        if self._shown is None:
            return 0
        least = self._shown.pts + (self._ticks / 2 if self._shown.concealed else 0)
        return sum(time <= least for time in times)

    def _show(self, drawn: DrawnFrame) -> DrawnFrame:
        self._shown = drawn.frame
        return drawn

    def _set_motion(self, decoded: DecodedInterval, time: int) -> None:
        """Set the motion to carry on from its keyframe, shown at `time`; none at a scene's ends."""
        interval = decoded.interval
        self._motion = None
        if interval.place is Place.BETWEEN and decoded.previous_key is not None:
            extrapolator = Extrapolator(
                decoded.previous_key.textured, decoded.key.textured, decoded.key.shown
            )
            ticks = interval.ticks
            self._motion = _CarriedMotion(extrapolator, time, sum(ticks), len(ticks))
