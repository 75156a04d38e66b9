"""One clock for all tracks of a source, and what its packets say of its frame rate.

A container's clock may jump: where recordings were joined, where a camera began anew, where a
counter wrapped. Pictures and sound meet such a jump at different packets, so neither may repair its
times alone. `SourceClock` reads the packets of both and moves all that follow a jump by one offset,
which puts them after the end of what was there. Who reads pictures, sound or texts has a clock of
his own; the packets are the same, and so are the offsets.
"""

import errno
from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count, pairwise
from statistics import median
from typing import TypeAlias, cast

import av
from av.container import InputContainer
from av.format import Flags
from av.stream import Disposition, Stream

AnyPacket: TypeAlias = "av.Packet[Stream]"
Beside: TypeAlias = deque[tuple[int, "AnyPacket"]]
"""Packets of the sound that came with the pictures, each after the jumps of the clock before it."""


def fraction(value: Fraction | None) -> Fraction | None:
    """A rational of PyAV (19 has its own) as a Fraction; None unless it is set and positive."""
    if not value or value.denominator == 0 or value.numerator <= 0:
        return None
    return Fraction(value.numerator, value.denominator)


_BACK = Fraction(1, 10)
"""Seconds that a track's decoding times may go back within one recording."""
_AHEAD = 10, 600, 10_000
"""Seconds of silence of all tracks that are believed: where the container joins clocks (MPEG-TS),
in others with sound, and without sound, where a slow camera may be meant."""
_CONFIRMED = Fraction(1)
"""Seconds after a jump within which the other track jumps as well, if the whole clock does."""
_SOON = Fraction(1, 4)
"""Seconds of any track between the first packet of one that begins late and the jump before it."""
_JOINT_PACKETS = 3
_MOST_WAITING = 2_000
_RATE_PACKETS, _RATE_BYTES = 60, 1 << 24
_TOLERANCE = Fraction(5, 4)


def best_audio(container: InputContainer) -> av.AudioStream | None:
    """The audio stream that FFmpeg prefers in the programme of the video, or the first where it
    knows none: they begin late."""
    best = container.streams.best("audio", container.streams.best("video"))
    return best if isinstance(best, av.AudioStream) else next(iter(container.streams.audio), None)


class SourceClock:
    """The packets of a container in its order, timed by one clock that does not jump."""

    def __init__(
        self, container: InputContainer, wanted: Sequence[Stream], beside: Beside | None = None
    ) -> None:
        """`wanted`: the streams to give packets of; the best video and audio set the clock.
        `beside` gets those of the audio as they come."""
        best = (container.streams.best("video"), best_audio(container))
        main = [s for s in best if s and not s.disposition & Disposition.attached_pic]
        self._container, self._beside = container, beside
        self._main = {stream.index for stream in main}
        self._wanted = {stream.index for stream in wanted}
        self._streams = list({stream.index: stream for stream in (*main, *wanted)}.values())
        self._source = container.demux(self._streams)
        self._waiting: deque[AnyPacket | av.FFmpegError] = deque()
        joins = container.format.flags & cast(int, Flags.ts_discont.value)
        self.may_jump = bool(joins)
        """Whether the container joins clocks: then what lies before a place tells its time."""
        self._limit = _AHEAD[0 if joins else 1 if len(main) > 1 else 2]
        self.taken_out = Fraction(0)
        """Seconds by which it jumped ahead so far."""
        self.end = 0
        """Ticks at which the latest of the wanted packets ends, those without data too."""
        self.is_cut = False
        """Whether the file ended within the latest packet, of whatever track sets the clock."""
        self.holes = 0
        """Packets so far that lack data, but for those where parts were joined."""
        self.has_late_tracks = False
        """Whether further tracks began on the way, by the end: PyAV does not read them."""
        self._suspects: dict[int, int] = {}  # packets to come until such a one is counted
        self._offsets = [Fraction(0)]  # of the parts between jumps
        self._latest = 0
        self._part = dict.fromkeys(self._main, 0)
        self._last: dict[int, Fraction] = {}  # by the container's clock
        self._ends: dict[int, Fraction] = {}  # by this one
        self._steps: dict[int, Fraction] = {}  # the shortest from one packet to the next

    def packets(self) -> Iterator[AnyPacket]:
        """The packets of the wanted streams, and one without data or times for each at the end.

        Packets without data that have times say that nothing changes; they are left out, for a
        decoder would take them for the end. Call it again to go on after an FFmpegError.
        """
        while (packet := self._waiting.popleft() if self._waiting else self._pull()) is not None:
            if isinstance(packet, av.FFmpegError):
                raise packet
            self._place(packet)
            self.is_cut = packet.is_corrupt if packet.size else self.is_cut
            is_given = packet.size or (packet.dts is None and packet.pts is None)
            if packet.stream.index not in self._wanted:
                if is_given and self._beside is not None and packet.stream.index in self._main:
                    self._beside.append((self.jumps(packet.stream), packet))
                continue
            if packet.pts is not None and not packet.is_discard:
                self.end = max(self.end, packet.pts + (packet.duration or 0))
            if is_given:
                yield packet

    @property
    def missing(self) -> Fraction:
        """Seconds that the container claims and in the end no packet has; 0: other tracks may."""
        claimed = Fraction(self._container.duration or 0, av.time_base)
        if len(self._container.streams) > len(self._streams) or not self._ends:
            return Fraction(0)
        return max(Fraction(0), claimed - max(self._ends.values()) - self.taken_out)

    def jumps(self, stream: Stream) -> int:
        """How often it jumped up to the latest packet of a stream that sets it."""
        return self._part.get(stream.index, 0)

    def nominal_rate(self, stream: Stream, claimed: Fraction | None) -> Fraction | None:
        """Frames per second: what is claimed, unless packets' times speak against it; ask first."""
        parts = [{entry.timestamp for entry in stream.index_entries}]
        if "mov" not in self._container.format.name or len(parts[0]) < 3:
            parts = self._peeked_times(stream)
        base = Fraction(fraction(stream.time_base) or 1)
        steps = [(b - a) * base for part in parts for a, b in pairwise(sorted(part))]
        if len(steps) < 2:
            return claimed
        usual = median(steps)
        bounds = sorted((1 / usual, len(steps) / sum(steps)))
        if claimed and bounds[0] / _TOLERANCE <= claimed <= bounds[1] * _TOLERANCE:
            return claimed
        steps = [step for step in steps if step < 10 * usual]
        return Fraction(len(steps)) / sum(steps)

    def _peeked_times(self, stream: Stream) -> list[set[int]]:
        """Of the first packets, by part between jumps back; fields of one frame share theirs."""
        parts, size, last = [set[int]()], 0, None
        while sum(map(len, parts)) < _RATE_PACKETS and size < _RATE_BYTES:
            packet = self._pull()
            if packet is None:
                break
            self._waiting.append(packet)
            if isinstance(packet, av.FFmpegError):
                break
            size += packet.size
            if packet.stream.index == stream.index and packet.pts is not None:
                time = _time(packet)
                if time is not None and last is not None and time < last - _BACK:
                    parts.append(set())
                last = time
                parts[-1].add(packet.pts)
        return parts

    def _pull(self) -> "AnyPacket | av.FFmpegError | None":
        try:
            return next(self._source, None)
        except IndexError:  # PyAV, at the very end
            self.has_late_tracks = True
            return None
        except av.FFmpegError as error:
            self._source = self._container.demux(self._streams)
            return None if error.errno == errno.EPERM else error  # -1 of old demuxers at the end

    def _place(self, packet: AnyPacket) -> None:
        """Move a packet's times to this clock."""
        index, time = packet.stream.index, _time(packet)
        if index not in self._main:
            self._shift(packet, self._offsets[self._latest])
            return
        if time is not None:
            jumps = self._jumps(index, time)
            self._note_hole(packet, jumps)
            if self._last and index not in self._last:
                self._part[index] = self._late_part(index, time)
            elif jumps:
                self._part[index] = self._next_part(index, time)
                self._latest = max(self._latest, self._part[index])
            if (step := time - self._last.get(index, time)) > 0:
                self._steps[index] = min(step, self._steps.get(index, step))
            end = self._end(packet, time)
            self._ends[index] = max(end, self._ends.get(index, end))
            self._last[index] = time
        self._shift(packet, self._offsets[self._part[index]])

    def _note_hole(self, packet: AnyPacket, jumps: bool) -> None:
        """FFmpeg marks what lacks data, and what comes just before a joint."""
        index = packet.stream.index
        left = self._suspects.pop(index, 0)
        if packet.is_corrupt:
            left = _JOINT_PACKETS
        if left and not jumps:
            self.holes += left == 1
            self._suspects[index] = left - 1

    def _late_part(self, index: int, time: Fraction) -> int:
        """The part that a track begins in: the latest, or the next one if another track is about
        to jump to where it begins."""
        last, ends = dict(self._last), dict(self._ends)
        for packet in self._following(index, time + _SOON):
            other, begin = packet.stream.index, _time(packet)
            if begin is None or other not in last:
                continue
            if begin < last[other] - _BACK or begin > last[other] + self._limit:
                if abs(begin - time) < _CONFIRMED:
                    self._ends = ends
                    return self._next_part(other, begin)
                break
            last[other], ends[other] = begin, max(self._end(packet, begin), ends[other])
            if begin > self._last[other] + _SOON:
                break
        return self._latest

    def _end(self, packet: AnyPacket, time: Fraction) -> Fraction:
        """When a packet of a main track ends: pictures of MPEG-TS have no duration."""
        index = packet.stream.index
        length = packet.duration * (fraction(packet.time_base) or 0) if packet.duration else 0
        return time + self._offsets[self._part[index]] + (length or self._steps.get(index, 0))

    def _jumps(self, index: int, time: Fraction) -> bool:
        if index not in self._last:
            return False
        ahead = time + self._offsets[self._part[index]] - max(self._ends.values())
        return time < self._last[index] - _BACK or ahead > self._limit

    def _next_part(self, index: int, time: Fraction) -> int:
        """The part that a track enters with a jump: one that the other track met, or a new one."""
        for part in range(self._part[index] + 1, len(self._offsets)):
            if -_CONFIRMED < time + self._offsets[part] - self._ends[index] < self._limit:
                return part
        offset = self._offset_after(index, time)
        self.taken_out += max(self._offsets[self._part[index]] - offset, Fraction(0))
        self._offsets.append(offset)
        return len(self._offsets) - 1

    def _offset_after(self, index: int, time: Fraction) -> Fraction:
        """It puts the earliest track of the new part behind the end of the latest of the old."""
        begins, ends = {index: time}, dict(self._ends)
        for packet in self._following(index, time + _CONFIRMED):
            other, begin = packet.stream.index, _time(packet)
            if begin is None or other in begins or other not in self._last:
                continue
            if self._jumps(other, begin):
                begins[other] = begin
            else:
                ends[other] = max(self._end(packet, begin), ends[other])
        return max(ends[each] for each in begins) - min(begins.values())

    def _following(self, index: int, until: Fraction) -> Iterator[AnyPacket]:
        """The packets of the main tracks up to a time of one of them; they stay to be read."""
        for number in count():
            if number == len(self._waiting):
                packet = self._pull()
                if packet is None:
                    return
                self._waiting.append(packet)
            packet = self._waiting[number]
            if isinstance(packet, av.FFmpegError) or number > _MOST_WAITING:
                return
            time = _time(packet)
            if packet.stream.index == index and time is not None and time > until:
                return
            if packet.stream.index in self._main:
                yield packet

    @staticmethod
    def _shift(packet: AnyPacket, offset: Fraction) -> None:
        base = fraction(packet.time_base)
        ticks = round(offset / base) if base else 0
        if ticks and packet.pts is not None:
            packet.pts += ticks
        if ticks and packet.dts is not None:
            packet.dts += ticks


def _time(packet: AnyPacket) -> Fraction | None:
    """Seconds, by the container's clock, at which it is decoded."""
    base = fraction(packet.time_base)
    return None if packet.dts is None or base is None else packet.dts * base
