"""Concealment: a missing, late or damaged packet never stops the picture.

Frames whose packet is not there are made of what is: the last two key pictures' motion carried on for one interval at
most, then a still; up to a new key picture, the motion towards it. All of them are flagged. The next INTRA packet heals,
and so does a lost packet that arrives after all; before, key pictures that do not build on the missing one are shown.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import floor

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Frame
from gsvc.codec.limits import Limits
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.decoders.motion.extrapolation import Extrapolator
from gsvc.decoders.reconstruction import DrawnKey, Reconstruction, Step

_REMEMBERED = 64
"""Packets of a group that are kept for one of them that is late."""
_REPLAYS = 4
"""How often a group is decoded again for late packets: senders decide on that."""


@dataclass(frozen=True)
class _Motion:
    """What can be carried on: from the key picture at `time`, over `ticks` and at once over `frames` at most (a stream's
    times may lie far apart)."""

    extrapolator: Extrapolator
    time: int
    ticks: int
    frames: int


class Concealer:
    """Decodes what arrives and stands in for what does not."""

    def __init__(self, header: Header, chain: Reconstruction, limits: Limits) -> None:
        self._ticks = header.frame_ticks
        self._estimator = header.motion_estimator
        self._chain = chain
        self._most = limits.longest_interval(header.format.width, header.format.height)
        self.reset()

    def reset(self) -> None:
        """Forget everything; the chain is reset apart."""
        self._next: int | None = None
        self._clock = -nominal_time(1, self._ticks)
        self._usual = 1
        self._shown: Frame | None = None
        self._motion: _Motion | None = None
        self._group: int | None = None
        self._has_intra = False
        self._packets: dict[int, Packet] = {}
        self._replays = 0

    def frames(self, packet: Packet) -> Iterator[Frame]:
        """What the packet completes, and before it what is missing."""
        if packet.type == PacketType.END and packet.pts is not None:
            yield from self._filled(packet.pts)
        if not packet.is_picture:
            return
        number = packet.number
        if number is None:
            number = self._next or 0
        if self._next is not None and number < self._next:
            self._take_late(packet, number)
            return
        begins = self._next is None
        lost = 0 if self._next is None else number - self._next
        self._next = number + 1
        self._note(packet, number, lost)
        step, is_sound = self._read(packet)
        ticks = step.interval.ticks if step else self._even_ticks(packet)
        if packet.pts is not None and (begins or packet.pts > self._clock):
            start = packet.pts - sum(ticks)
        else:  # not known, or one before was wrong: times go forward
            start = self._clock + nominal_time(min(lost * self._usual, self._most), self._ticks)
        times = [start + t for t in accumulate(ticks)]
        self._clock, self._usual = times[-1], len(ticks)
        yield from self._filled(start)
        if step is None:
            yield from self._made_up(times)
            return
        yield from self._drawn(step, times, is_sound=is_sound)
        self._set_motion(packet, step)

    def until(self, pts: int) -> Iterator[Frame]:
        """What is due up to `pts`."""
        if self._shown is None:
            return
        last = self._shown.pts
        count = min(floor((pts - last) / self._ticks), self._most)
        yield from self._made_up([last + nominal_time(n, self._ticks) for n in range(1, count + 1)])

    def _note(self, packet: Packet, number: int, lost: int) -> None:
        """Note which group the packet belongs to; without those that are lost, it cannot go on."""
        if lost:
            self._chain.end_group()
        group = number if packet.is_key else packet.group
        if group != self._group or (group is None and lost):
            self._group, self._has_intra = group, False
            self._packets, self._replays = {}, 0
        if len(self._packets) < _REMEMBERED:
            self._packets[number] = packet

    def _read(self, packet: Packet) -> tuple[Step | None, bool]:
        """The packet decoded as far as it can be, and whether that is all of it."""
        try:
            step = self._chain.read(packet)
            self._has_intra |= packet.is_key
            return step, True
        except BitstreamError:
            pass
        if self._has_intra:
            with suppress(BitstreamError):
                return self._chain.read_picture(packet, self._even_ticks(packet)), False
        return None, False

    def _take_late(self, packet: Packet, number: int) -> None:
        """When no packet of the group is missing any more, decode it again, so that it can go on."""
        if self._group is None or packet.group != self._group or number in self._packets:
            return
        self._packets[number] = packet
        numbers = range(self._group, self._next or 0)
        if self._replays == _REPLAYS or len(numbers) != len(self._packets):
            return
        self._replays += 1
        self._chain.end_group()
        with suppress(BitstreamError):
            for last in (self._packets[n] for n in numbers):
                step = self._chain.read(last)
            self._has_intra = True
            self._set_motion(last, step)

    def _even_ticks(self, packet: Packet) -> tuple[int, ...]:
        """Times of the frames of a packet that cannot be read, as good as they are known."""
        count = max(1, min(packet.frames, self._most))
        total = packet.duration or nominal_time(count, self._ticks)
        times = [n * max(total, count) // count for n in range(count + 1)]
        return tuple(after - before for before, after in pairwise(times))

    def _filled(self, start: int) -> Iterator[Frame]:
        """The frames that are missing up to and including one at `start`."""
        if self._shown is None:
            return
        last = self._shown.pts
        count = round((start - last) / self._ticks)
        times = [last + n * (start - last) // count for n in range(1, min(count, self._most) + 1)]
        yield from self._made_up(times)

    def _made_up(self, times: Sequence[int]) -> Iterator[Frame]:
        """Frames for which nothing was sent: motion carried on, then a still."""
        if self._shown is None:
            return
        times, motion = times[self._not_due(times) :], self._motion
        moving: list[int] = []
        if motion is not None:
            moving = [t for t in times if t <= motion.time + motion.ticks][: motion.frames]
            ages = ((t - motion.time) / motion.ticks for t in moving)
            pictures = (motion.extrapolator.picture(age) for age in ages)
            for pts, pixels in zip(moving, self._chain.kept(pictures), strict=True):
                yield self._show(Frame(pixels, pts, concealed=True))
        for pts in times[len(moving) :]:
            yield self._show(Frame(self._shown.pixels, pts, concealed=True))

    def _drawn(self, step: Step, times: Sequence[int], *, is_sound: bool) -> Iterator[Frame]:
        """The frames of a step. Without the key picture before, what was shown last stands for it."""
        interval, length = step.interval, len(times)
        good = range(length) if is_sound else range(0)
        skip = self._not_due(times)
        if step.before is None and interval.place is Place.BETWEEN:
            good = good[-1:]
            own = tuple(sample for sample in interval.samples if sample.offset == length)
            interval = replace(interval, samples=own, values={})
            if self._chain.drawn is None:
                skip = max(skip, length - 1)
            else:
                step = replace(step, before=DrawnKey(self._chain.drawn), interval=interval)
        pictures = self._chain.draw(step, skip)
        for n, pixels in zip(range(skip, length), pictures, strict=True):
            yield self._show(Frame(pixels, times[n], concealed=n not in good))

    def _not_due(self, times: Sequence[int]) -> int:
        """How many of these were shown already: made up at about this time, too."""
        if self._shown is None:
            return 0
        least = self._shown.pts + (self._ticks / 2 if self._shown.concealed else 0)
        return sum(time <= least for time in times)

    def _show(self, frame: Frame) -> Frame:
        self._shown = frame
        return frame

    def _set_motion(self, packet: Packet, step: Step) -> None:
        """What may be carried on from here; nothing at a scene's beginning and end."""
        interval = step.interval
        begins = packet.is_key and interval.length == 1
        self._motion = None
        if interval.place is Place.BETWEEN and step.before is not None and not begins:
            extrapolator = Extrapolator(
                step.before.decoded, step.key.decoded, step.key.shown, self._estimator
            )
            ticks = interval.ticks
            self._motion = _Motion(extrapolator, self._clock, sum(ticks), len(ticks))
