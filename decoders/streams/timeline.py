"""Where packets stand in a stream, and when their frames are shown.

`Strict` is the policy for a stream of which nothing is missing; `concealment` has the other one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layout import nominal_time
from gsvc.codec.bitstream.limits import Limits
from gsvc.decoders.streams.reconstruction import DecodedInterval, Reconstruction


@dataclass(frozen=True)
class DrawnFrame:
    """A frame as motion draws it, and where it is from."""

    frame: Frame
    interval: DecodedInterval | None = None
    """None for a frame that was made up."""
    number: int = 0
    """Which frame of the interval it is, from 1."""


@dataclass(frozen=True)
class PacketArrival:
    """A packet's place among the packets before it."""

    number: int
    """Its own; where it has none, the one that is next."""
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
        self.next: int | None = None
        """Number of the packet that comes next, if it is known."""

    def arrive(self, packet: Packet) -> PacketArrival:
        """Note that a packet came; one that comes too late changes nothing."""
        begins = self.next is None
        expected = self.next or 0
        number = expected if packet.number is None else packet.number
        missing = 0 if begins else number - expected
        if missing >= 0:
            self.next = number + 1
        return PacketArrival(number, missing, begins)

    def times(
        self, packet: Packet, ticks: Sequence[int], *, missing: int = 0, anew: bool
    ) -> list[int]:
        """Times of a packet's frames, `ticks` apart.

        They go on from those before, with a gap for packets that are missing; `anew`: they are the
        packet's own if it has any.
        """
        if anew and packet.pts is not None:
            start = packet.pts - sum(ticks)
        else:
            gap = min(missing * self._usual, self.most_frames)
            start = self.clock + nominal_time(gap, self.frame_ticks)
        times = list(accumulate(ticks, initial=start))[1:]
        self.clock, self._usual = times[-1], len(ticks)
        return times


class Strict:
    """Frames of a stream of which nothing is missing. Raises BitstreamError for any other."""

    def __init__(self, header: Header, chain: Reconstruction, limits: Limits) -> None:
        self._timeline = PacketTimeline(header, limits)
        self._chain = chain
        self._may_join = False

    def reset(self) -> None:
        """Forget everything: the stream may be joined at any INTRA packet."""
        self._timeline.reset()
        self._chain.reset()
        self._may_join = True

    def frames(self, packet: Packet) -> Iterator[DrawnFrame]:
        """The frames of a packet, one at a time; without the keyframe before, those after it."""
        for decoded, times in self.intervals(packet):
            for number in range(decoded.first, len(times) + 1):
                frame = Frame(decoded.picture(number), times[number - 1])
                yield DrawnFrame(frame, decoded, number)

    def skip(self, packet: Packet) -> None:
        """Take in a packet without drawing its frames."""
        for _ in self.intervals(packet):
            pass

    def intervals(self, packet: Packet) -> Iterator[tuple[DecodedInterval, list[int]]]:
        """The packet's intervals, decoded, and the times of their frames."""
        if not packet.is_picture:
            return
        arrival = self._timeline.arrive(packet)
        if arrival.missing:
            self._lose_track()
            raise BitstreamError(
                f"picture packet {arrival.number} follows {arrival.number - arrival.missing - 1}: "
                "packets were lost, go on at an intra one"
            )
        self._may_join |= arrival.begins and arrival.number > 0
        anew = not self._chain.goes_on
        parsed = self._chain.read(packet)
        times = self._timeline.times(packet, parsed.ticks, anew=anew)
        for decoded in self._chain.intervals(parsed):
            if decoded.first > 1 and not self._may_join:
                self._lose_track()
                raise BitstreamError("the stream does not begin with a keyframe: it is damaged")
            length = decoded.interval.length
            yield decoded, times[:length]
            times = times[length:]

    def _lose_track(self) -> None:
        self._chain.end_group()
        self._timeline.lose_track()
        self._may_join = True
