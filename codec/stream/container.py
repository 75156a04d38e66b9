"""The container: a header, then packets, in a file or on a pipe."""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from gsvc.codec.errors import BitstreamError, ChecksumError, LimitError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.stream.header import HEADER_BYTES, Header
from gsvc.codec.stream.packet import Packet, PacketType, read_packet
from gsvc.codec.stream.varint import Cutter, read_varint
from gsvc.codec.typed import typed


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
