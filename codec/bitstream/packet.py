"""Packets: tag, frame count, payload and checksum.

The framing takes at most 8 bytes for a payload of up to 128 KiB:

    tag      varint   length of the payload << 4 | type
    frames   varint   frames that the packet completes: at least 1 for a picture, else 0
    payload  length bytes
    crc      4 bytes  CRC-32C (RFC 3720) of everything above, little-endian

Varints are unsigned integers in little-endian base 128 (LEB128), at most 5 bytes long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from google_crc32c import value as crc32c

from gsvc.codec.bitstream.errors import (
    BitstreamError,
    ChecksumError,
    LimitError,
    TruncatedStreamError,
    VersionError,
)
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, Limits


def varint(value: int) -> bytes:
    """Encode 0 <= `value` < 2^35. Raises ValueError beyond."""
    if not 0 <= value < 1 << 35:
        raise ValueError(f"{value} does not fit a varint")
    result = bytearray()
    while value >= 128:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def read_varint(take: Callable[[int], bytes]) -> int:
    """Decode the bytes that `take(1)` returns, one a call. Raises BitstreamError above 5 bytes."""
    value = 0
    for shift in range(0, 35, 7):
        byte = take(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise BitstreamError("a varint has more than 5 bytes: the stream is damaged")


class Cutter:
    """Reads `data` piece by piece from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes. Raises BitstreamError beyond the end."""
        if count > len(self._data) - self._position:
            raise BitstreamError("a packet is shorter than it says: the stream is damaged")
        self._position += count
        return self._data[self._position - count : self._position]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return self._position == len(self._data)

    def rest(self) -> bytes:
        """The remaining bytes."""
        return self.take(len(self._data) - self._position)


OPTIONAL = 8
"""Types from 8 on are optional: a decoder skips those that it does not know."""


class PacketType(IntEnum):
    """What a packet holds. Types 0-7 are required, 8-15 optional. Numbers are never reused."""

    END = 0
    """The last packet; its payload is the number of picture packets before it, a varint."""
    INTRA = 1
    """First coded picture of a group, with the scaffold of the frames since the previous one."""
    INTER = 2
    """A further coded picture of the group, with the scaffold of the frames since the previous one;
    or only the scaffold of frames that hold the last one."""
    AUDIO = 8
    """A run of Opus packets."""
    TEXT = 9
    """Title, chapters and subtitles."""
    OBJECTS = 10
    """What is seen where, for who analyses and draws nothing."""


PICTURES = (PacketType.INTRA, PacketType.INTER)
"""Types of picture packets: those that complete frames."""


@dataclass(frozen=True)
class Packet:
    """One packet of a stream.

    `type`, `frames` and `payload` are in its bytes. Encoders fill the other fields too;
    `StreamReader` fills `number` and `group`.
    """

    type: int
    """A `PacketType`, or the number of an unknown optional type."""
    frames: int
    """Frames that the packet completes; 0 unless it is a picture packet."""
    payload: bytes
    """The content; its layout depends on `type`."""
    pts: int | None = None
    """Presentation time of its last frame, in ticks of the stream's time base; for other types,
    that of the last frame before it."""
    duration: int | None = None
    """Ticks from the frame before its first frame to its last frame."""
    number: int | None = None
    """Index among the stream's picture packets; a gap means a loss."""
    group: int | None = None
    """`number` of the INTRA packet that it builds on; its own for an INTRA packet."""

    @property
    def is_picture(self) -> bool:
        """Whether the packet carries frames: INTRA or INTER."""
        return self.type in PICTURES

    @property
    def is_key(self) -> bool:
        """Whether a decoder can start here: INTRA."""
        return self.type == PacketType.INTRA

    def __repr__(self) -> str:
        known = {"pts": self.pts, "number": self.number, "group": self.group}
        also = "".join(f", {name}={value}" for name, value in known.items() if value is not None)
        return (
            f"Packet(type={self.type}, frames={self.frames}, "
            f"payload=<{len(self.payload)} bytes>{also})"
        )

    def to_bytes(self) -> bytes:
        """The packet's bytes: type, frames and payload, framed."""
        body = varint(len(self.payload) << 4 | self.type) + varint(self.frames) + self.payload
        return bytes(body + crc32c(body).to_bytes(4, "little"))


Read = Callable[[int], bytes]
"""Reads n bytes; fewer at the end of the stream."""


def read_head(take: Read, limits: Limits) -> tuple[int, int, int]:
    """Type, bytes of payload and frames, which a packet begins with. Raises LimitError."""
    tag = read_varint(take)
    kind, length = tag & 15, tag >> 4
    if length > limits.packet_bytes:
        raise LimitError(f"a packet of {length} bytes exceeds the limit of {limits.packet_bytes}")
    frames = read_varint(take)
    if frames > limits.interval:
        raise LimitError(f"a packet of {frames} frames exceeds the limit of {limits.interval}")
    return kind, length, frames


def read_packet(read: Read, limits: Limits = DEFAULT_LIMITS) -> Packet:
    """Read one packet: type, frames and payload. Raises BitstreamError for an invalid one."""
    head = bytearray()

    def take(count: int) -> bytes:
        data = read(count)
        if len(data) < count:
            raise TruncatedStreamError(
                "the stream ends early: its tail is missing, copy the file again"
            )
        head.extend(data)
        return data

    kind, length, frames = read_head(take, limits)
    payload = take(length)
    body = bytes(head)
    if crc32c(body) != int.from_bytes(take(4), "little"):
        raise ChecksumError("a packet is damaged (CRC-32C mismatch): copy the file again")
    if kind < OPTIONAL and kind not in tuple(PacketType):
        raise VersionError(f"packet type {kind} is not known: install a newer gsvc")
    packet = Packet(kind, frames, payload)
    if packet.is_picture == (frames == 0):
        raise BitstreamError(f"a packet of type {kind} has {frames} frames: the stream is damaged")
    return packet


def is_alone(packet: Packet) -> bool:
    """Whether it is an OBJECTS packet of a stream without pictures."""
    return packet.type == PacketType.OBJECTS and bool(packet.payload[:1] and packet.payload[0] & 1)
