"""Where everything in a stream file is, so that any range can be decoded without the rest.

The index is read in one pass over the file that checks every packet but decodes no picture: of the scaffold only the
times, which stand first in each packet. (An hour takes about a second.)
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Frame
from gsvc.codec.limits import DEFAULT_LIMITS, Held, Limits
from gsvc.codec.scaffold.coder import Reader
from gsvc.codec.scaffold.interval import Prediction, code_picture, code_times
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.scaffold.types import Place
from gsvc.codec.stream.container import StreamReader
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, read_packet
from gsvc.codec.stream.payload import split_payload

if TYPE_CHECKING:
    from gsvc.codec.decoder import Decoder

_ENTRY_BYTES = 400  # of memory


@dataclass(frozen=True)
class IndexEntry:
    """A picture packet: where its bytes begin in the file; the number of its first frame, in the stream, and how many
    it has; number and group, pts and duration as in `Packet`; `needs_before`: it has frames that also need the group
    before."""

    offset: int
    first: int
    frames: int
    number: int
    group: int
    pts: int
    duration: int
    needs_before: bool


class StreamIndex:
    """The picture packets of a file, `entries`, and the pts of every frame in ticks, `times`."""

    def __init__(self, file: BinaryIO, limits: Limits = DEFAULT_LIMITS) -> None:
        """Read a file that can be sought, from its beginning. Raises BitstreamError when it is not valid."""
        self._file, self._limits = file, limits
        file.seek(0)
        reader = StreamReader(file, limits)
        self.header = reader.header
        self.times = array("q")
        self.entries: list[IndexEntry] = []
        times, offset = _Times(self.header, limits), file.tell()
        clock = -nominal_time(1, self.header.frame_ticks)
        held = Held(limits)
        for packet in reader:
            if packet.is_picture:
                held.add(_ENTRY_BYTES + self.times.itemsize * packet.frames)
                place, ticks = times.read(packet)
                self.entries.append(self._entry(packet, offset, place, clock + sum(ticks), ticks))
                self.times.extend(clock + t for t in accumulate(ticks))
                clock = self.times[-1]
            offset = file.tell()

    @property
    def frames(self) -> int:
        """Frames of the stream."""
        return len(self.times)

    def frame_at(self, seconds: float) -> int:
        """The first frame shown at this time after the first one, or later; `frames` beyond the end."""
        if not self.times:
            return 0
        ticks = seconds / self.header.format.time_base
        return bisect_left(self.times, self.times[0] + ticks)

    def decode(self, decoder: "Decoder", first: int, count: int) -> Iterator[Frame]:
        """`count` frames from number `first` on, the same as of decoding all (with steps above 0 too); fewer where the
        stream ends. The decoder, of this stream's header, is reset. Raises BitstreamError."""
        decoder.reset()
        times = self.times[first : first + count]
        for packet, is_wanted in self.packets(first, count):
            if not is_wanted:
                decoder.skip(packet)
                continue
            for frame in decoder.frames(packet):
                if times[0] <= frame.pts <= times[-1]:
                    yield frame

    def packets(self, first: int, count: int) -> Iterator[tuple[Packet, bool]]:
        """The packets to decode, in order, to get `count` frames from number `first` on; with each, whether any of its
        frames is among them. Bytes are read again and checked again.

        Raises BitstreamError where the file has changed.
        """
        if count < 1 or not 0 <= first < self.frames:
            return
        wanted = self._entry_of(first)
        start = wanted.group
        # Up to its last frame, the key picture, an intra packet may build on the group before.
        if (
            wanted.number == start
            and wanted.needs_before
            and first < wanted.first + wanted.frames - 1
        ):
            start = self.entries[start - 1].group
        last = self._entry_of(min(first + count, self.frames) - 1)
        for entry in self.entries[start : last.number + 1]:
            yield self._read(entry), entry.number >= wanted.number

    def _entry_of(self, frame: int) -> IndexEntry:
        return self.entries[bisect_right(self.entries, frame, key=lambda entry: entry.first) - 1]

    def _entry(
        self, packet: Packet, offset: int, place: Place, pts: int, ticks: tuple[int, ...]
    ) -> IndexEntry:
        number, group = packet.number, packet.group
        if number is None or group is None:
            raise BitstreamError("the stream does not begin with an intra picture: it is damaged")
        is_between = packet.is_key and place is Place.BETWEEN and packet.frames > 1
        if is_between and number == 0:
            raise BitstreamError("the stream does not begin with a key picture: it is damaged")
        return IndexEntry(
            offset=offset,
            first=len(self.times),
            frames=packet.frames,
            number=number,
            group=group,
            pts=pts,
            duration=sum(ticks),
            needs_before=is_between,
        )

    def _read(self, entry: IndexEntry) -> Packet:
        self._file.seek(entry.offset)
        return replace(
            read_packet(self._file.read, self._limits),
            pts=entry.pts,
            duration=entry.duration,
            number=entry.number,
            group=entry.group,
        )


class _Times:
    """Reads of each picture packet where its frames lie and their ticks."""

    def __init__(self, header: Header, limits: Limits) -> None:
        self._header, self._limits = header, limits
        self._group: tuple[Reader, Prediction] | None = None

    def read(self, packet: Packet) -> tuple[Place, tuple[int, ...]]:
        scaffold, unit = split_payload(packet.payload)
        if packet.is_key:
            reader = Reader(most_bits=self._limits.scaffold_bits)
            reader.start(scaffold)
            code_picture(reader, None, None)
            group = reader, self._header.prediction()
        elif self._group is None:
            raise BitstreamError("the stream does not begin with an intra picture: it is damaged")
        else:
            group = self._group
            group[0].start(scaffold)
        self._group = group
        return code_times(*group, packet.frames, None, has_picture=bool(unit))
