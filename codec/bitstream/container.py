"""The container: a header, then packets, in a file or on a pipe.

`StreamReader` stops at damage. `Salvage` finds what is left of a damaged stream: all packets that
can be read, and where some are missing. A concealing decoder takes them as a receiver takes what
arrives. The framing of most damaged packets still says how many frames they complete: an empty
packet stands in for such a one. Where the framing is damaged too, the next packet is found by its
checksum.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO, Protocol

from gsvc.codec.bitstream.errors import (
    BitstreamError,
    ChecksumError,
    LimitError,
    TruncatedStreamError,
    VersionError,
)
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.header import HEADER_BYTES, Header
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, HeldBytes, Limits
from gsvc.codec.bitstream.packet import (
    PICTURES,
    Cutter,
    Packet,
    PacketType,
    read_head,
    read_packet,
    read_varint,
)
from gsvc.codec.bitstream.typed import typed


@typed
class StreamWriter:
    """Writes a stream to a binary file object, beginning with the header.

    `bytes_written` counts all bytes so far.
    """

    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file = file
        self.bytes_written = 0
        self._put(header.to_bytes())

    def write(self, packet: Packet) -> None:
        """Append one packet."""
        self._put(packet.to_bytes())

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.bytes_written += len(data)


@typed
class StreamReader:
    """Reads a stream from a binary file object: `header`, then the packets by iteration.

    Picture packets get `number` and `group`. `pts` and `duration` stay None: `StreamIndex` reads
    them. The END packet comes last. Raises BitstreamError for damage, among them
    TruncatedStreamError for a missing END packet.
    """

    def __init__(self, file: BinaryIO, limits: Limits = DEFAULT_LIMITS) -> None:
        self._file = file
        self._limits = limits
        self.header = Header.from_bytes(self._read(HEADER_BYTES), limits)

    def __iter__(self) -> Iterator[Packet]:
        frames = number = 0
        group: int | None = None
        while True:
            try:
                packet = read_packet(self._read, self._limits)
            except ChecksumError as error:
                raise ChecksumError(f"after frame {frames}, {error}") from error
            frames += packet.frames
            if frames > self._limits.frames:
                raise LimitError(f"frame {frames} exceeds the limit of {self._limits.frames}")
            if packet.is_picture:
                group = number if packet.is_key else group
                packet = replace(packet, number=number, group=group)
                number += 1
            if packet.type == PacketType.END:
                self._check_end(packet, number)
                yield packet
                return
            yield packet

    def _check_end(self, packet: Packet, pictures: int) -> None:
        declared = read_varint(Cutter(packet.payload).take)
        if declared != pictures:
            raise BitstreamError(
                f"the stream has {pictures} pictures, its end says {declared}: packets were lost"
            )
        if self._read(1):
            raise BitstreamError("there are bytes after the end of the stream: cut them off")

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._file.read(count - len(data))
            if not part:
                break
            data += part
        return bytes(data)


_CHUNK = 1 << 20
_HEAD_BYTES = 10
_PACKET_BYTES = 300  # of memory, beside its payload, which the data that are held stand for
_MOST_SEARCHED = 1 << 30
"""Bytes of candidates that are checked for the next packet: bytes can be made to seem many."""


class Salvage:
    """The packets of a stream that may be damaged: `header`, then the packets by iteration.

    Picture packets get `number`, with gaps where some are missing, and `group` where it is known.
    """

    header: Header
    """The stream's."""
    damage: BitstreamError | None
    """What was first found to be wrong; None: nothing."""

    def __init__(self, file: BinaryIO, limits: Limits = DEFAULT_LIMITS) -> None:
        """Read a file to its end. Raises BitstreamError for a damaged header, VersionError for a
        stream of a newer gsvc, LimitError for one of too many frames or too much memory."""
        self._limits, self._held = limits, HeldBytes(limits)
        self._data = _read(file, self._held)
        self.header = Header.from_bytes(self._data[:HEADER_BYTES], limits)
        self.damage = None
        self._file = io.BytesIO(self._data)
        self._searched = 0
        found = list(self._found())
        frames = sum(packet.frames for packet in found if packet)
        if frames > limits.frames:
            raise LimitError(f"{frames} frames exceed the limit of {limits.frames}")
        self._packets = list(_numbered(found, self._lost(found)))

    def __iter__(self) -> Iterator[Packet]:
        return iter(self._packets)

    def _found(self) -> Iterator[Packet | None]:
        """Packets, empty ones for those of which only the framing is left, None for a hole."""
        at = HEADER_BYTES
        packet: Packet | None = None
        while at < len(self._data):
            try:
                packet, at = self._packet(at)
            except VersionError:
                raise
            except BitstreamError as error:
                self._blame(error)
                packet, at = self._past_damage(at)
            self._held.add(_PACKET_BYTES)
            yield packet
            if packet is not None and packet.type == PacketType.END and packet.payload:
                break
        else:
            self._blame(TruncatedStreamError("the stream ends early: its tail is missing"))
        if at < len(self._data):
            self._blame(BitstreamError("there are bytes after the end of the stream"))

    def _blame(self, error: BitstreamError) -> None:
        self.damage = self.damage or error

    def _lost(self, found: list[Packet | None]) -> int:
        """How many picture packets the first hole is, by the number that the end declares."""
        end = found[-1] if found else None
        if end is None or end.type != PacketType.END or not end.payload:
            return 1
        declared = read_varint(Cutter(end.payload).take)
        pictures = sum(packet is not None and packet.is_picture for packet in found)
        if declared != pictures:
            self._blame(BitstreamError(f"of {declared} pictures, {pictures} are there"))
        return max(1, declared - pictures - (found.count(None) - 1))

    def _packet(self, at: int) -> tuple[Packet, int]:
        """The packet that begins `at` a place, and where it ends."""
        self._file.seek(at)
        return read_packet(self._file.read, self._limits), self._file.tell()

    def _past_damage(self, at: int) -> tuple[Packet | None, int]:
        """What stands for the damaged packet `at` a place, and where to go on."""
        stand_in, end = self._framing(at)
        if stand_in is not None and self._is_packet(end):
            return stand_in, end
        for place in range(at + 1, len(self._data)):
            if self._is_packet(place):
                return None, place
        return stand_in, len(self._data)

    def _framing(self, at: int) -> tuple[Packet | None, int]:
        """The packet `at` a place without its payload, and where it ends; None: it cannot be."""
        head = Cutter(self._data[at : at + _HEAD_BYTES])
        try:
            kind, length, frames = read_head(head.take, self._limits)
        except BitstreamError:
            return None, at
        end = at + min(_HEAD_BYTES, len(self._data) - at) - len(head.rest()) + length + 4
        can_be = (kind in PICTURES) == (frames > 0)
        return (Packet(kind, frames, b"") if can_be else None), end

    def _is_packet(self, at: int) -> bool:
        """Whether a whole packet begins there."""
        head, end = self._framing(at)
        if head is None or end > len(self._data) or self._searched > _MOST_SEARCHED:
            return False
        self._searched += end - at
        try:
            self._packet(at)
        except BitstreamError:
            return False
        return True


def _read(file: BinaryIO, held: HeldBytes) -> bytes:
    data = bytearray()
    while part := file.read(_CHUNK):
        held.add(len(part))
        data += part
    return bytes(data)


def _numbered(found: list[Packet | None], lost: int) -> Iterator[Packet]:
    """The packets with their numbers; the first hole is `lost` packets, any further one is one."""
    number, group = 0, None
    for packet in found:
        if packet is None:
            number, lost, group = number + lost, 1, None
        elif packet.is_picture:
            group = number if packet.is_key else group
            yield replace(packet, number=number, group=group)
            number += 1
        elif packet.payload:
            yield packet


class CountingFile:
    """Counts the bytes read of a file, because a varint may be longer than it needs to be."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.position = 0
        """Bytes read."""

    def read(self, size: int) -> bytes:
        """As a file's."""
        data = self._file.read(size)
        self.position += len(data)
        return data


class PacketDecoder(Protocol):
    """What the loop needs of `gsvc.Decoder`, which describes these."""

    def reset(self) -> None: ...

    def frames(self, packet: Packet) -> Iterator[Frame]: ...

    def skip(self, packet: Packet) -> None: ...

    def flush(self) -> Sequence[Frame]: ...


def next_frames(decoder: PacketDecoder, packet: Packet | None) -> Iterator[Frame]:
    """The frames of the next packet; of None, the end of the packets, those held back."""
    yield from decoder.flush() if packet is None else decoder.frames(packet)


def decoded_frames(
    decoder: PacketDecoder, packets: Iterable[tuple[Packet, bool]]
) -> Iterator[Frame]:
    """The frames of packets, each given with whether it is wanted; in the end those held back."""
    for packet, is_wanted in packets:
        if is_wanted:
            yield from next_frames(decoder, packet)
        else:
            decoder.skip(packet)
    yield from next_frames(decoder, None)
