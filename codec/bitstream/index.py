"""Where everything in a stream file is, so that any range can be decoded without the rest.

The index is read in one pass over the file. It checks every packet but decodes no picture; of the
scaffold it reads only the layout, which stands first in each packet. (An hour takes about a
second.)
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import BinaryIO

from gsvc.codec.bitstream.container import (
    Packet,
    PacketDecoder,
    StreamReader,
    decoded_frames,
    read_packet,
)
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layout import FrameSpan, nominal_time
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, HeldBytes, Limits
from gsvc.codec.bitstream.scaffold import Place
from gsvc.codec.bitstream.typed import typed

_ENTRY_BYTES = 400  # of memory


@dataclass(frozen=True)
class IndexedPacket:
    """A picture packet in a file."""

    offset: int
    """Where its bytes begin in the file."""
    first: int
    """Number of its first frame in the stream."""
    frames: int
    """Frames that it completes."""
    number: int
    """As in `Packet`."""
    group: int
    """As in `Packet`."""
    pts: int
    """As in `Packet`."""
    duration: int
    """As in `Packet`."""
    lead: int
    """How many of its first frames also need the group before."""


@typed
class StreamIndex:
    """Where every frame of a stream file is, so that any range decodes without the rest."""

    header: Header
    """The stream's header."""
    entries: list[IndexedPacket]
    """The picture packets, in order."""
    times: "array[int]"
    """The pts of every frame, in ticks."""
    damage: BitstreamError | None
    """What is wrong after the last packet; None: nothing."""

    def __init__(
        self, file: BinaryIO, limits: Limits = DEFAULT_LIMITS, *, partial: bool = False
    ) -> None:
        """Index a seekable file from its beginning.

        Raises BitstreamError for a damaged one; `partial` indexes what comes before the damage.
        """
        self._file, self._limits = file, limits
        file.seek(0)
        reader = StreamReader(file, limits)
        self.header = reader.header
        self.times = array("q")
        self.entries = []
        self.damage = None
        try:
            self._take_all(reader)
        except BitstreamError as error:
            if not partial:
                raise
            self.damage = error

    def _take_all(self, reader: StreamReader) -> None:
        groups, offset = GroupReader(self.header, self._limits), self._file.tell()
        clock = -nominal_time(1, self.header.frame_ticks)
        held = HeldBytes(self._limits)
        for packet in reader:
            if packet.is_picture:
                held.add(_ENTRY_BYTES + self.times.itemsize * packet.frames)
                spans = groups.read_layout(packet)
                ticks = [tick for span in spans for tick in span.ticks]
                self.entries.append(self._entry(packet, offset, spans[0], clock, sum(ticks)))
                self.times.extend(clock + t for t in accumulate(ticks))
                clock = self.times[-1]
            offset = self._file.tell()

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.times)

    def frame_at(self, seconds: float) -> int:
        """Number of the first frame shown `seconds` after frame 0 or later; `frames` at the end."""
        if not self.times:
            return 0
        ticks = seconds / self.header.format.time_base
        return bisect_left(self.times, self.times[0] + ticks)

    def decode(self, decoder: PacketDecoder, first: int, count: int) -> Iterator[Frame]:
        """Yield `count` frames from number `first` on, fewer at the end of the stream.

        `decoder` has this stream's header; it is reset first. The frames equal those of decoding
        the whole stream, except with a `WindowRefiner`, which sees other windows. Raises
        BitstreamError for a damaged file.
        """
        decoder.reset()
        times = self.times[first : first + count]
        for frame in decoded_frames(decoder, self.packets(first, count)):
            if times[0] <= frame.pts <= times[-1]:
                yield frame

    def packets(self, first: int, count: int) -> Iterator[tuple[Packet, bool]]:
        """The packets to decode for `count` frames from number `first` on, in order.

        Each comes with whether it holds any of those frames. Raises BitstreamError if the file has
        changed since it was indexed.
        """
        if count < 1 or not 0 <= first < self.frames:
            return
        wanted = self._entry_of(first)
        start = wanted.group
        # Up to its first coded picture, an intra packet may build on the group before.
        if first < wanted.first + wanted.lead:
            start = self.entries[start - 1].group
        last = self._entry_of(min(first + count, self.frames) - 1)
        for entry in self.entries[start : last.number + 1]:
            yield self._read(entry), entry.number >= wanted.number

    def _entry_of(self, frame: int) -> IndexedPacket:
        return self.entries[bisect_right(self.entries, frame, key=lambda entry: entry.first) - 1]

    def _entry(
        self, packet: Packet, offset: int, span: FrameSpan, clock: int, duration: int
    ) -> IndexedPacket:
        number, group = packet.number, packet.group
        if number is None or group is None:
            raise BitstreamError("the stream does not begin with an intra picture: it is damaged")
        lead = span.length - 1 if packet.is_intra and span.place is Place.BETWEEN else 0
        if lead and number == 0:
            raise BitstreamError("the stream does not begin with a keyframe: it is damaged")
        return IndexedPacket(
            offset=offset,
            first=len(self.times),
            frames=packet.frames,
            number=number,
            group=group,
            pts=clock + duration,
            duration=duration,
            lead=lead,
        )

    def _read(self, entry: IndexedPacket) -> Packet:
        self._file.seek(entry.offset)
        return replace(
            read_packet(self._file.read, self._limits),
            pts=entry.pts,
            duration=entry.duration,
            number=entry.number,
            group=entry.group,
        )
