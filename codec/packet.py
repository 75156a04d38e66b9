"""Packets: a tag, a time, a payload and a checksum; at most 8 bytes beside the payload up to 128 KiB.

    tag      varint   length of the payload << 4 | type
    time     varint   frames that the packet completes: at least 1 for a picture, 0 for any other packet
    payload  length bytes
    crc      4 bytes  CRC-32C (RFC 3720) of everything above, little-endian

Varints are little-endian base 128 (LEB128).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from google_crc32c import value as crc32c

from gsvc.codec.errors import ChecksumError, LimitError, TruncatedStreamError, VersionError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.varint import read_varint, varint

OPTIONAL = 8
"""Types from 8 on are optional: a decoder that does not know one skips it."""


class PacketType(IntEnum):
    """What a packet holds. 0-7 are required, 8-15 optional; ids are never reused."""

    END = 0
    """Last packet; payload: number of pictures before it, a varint."""
    INTRA = 1
    """First key picture of a group, and the scaffold of the frames since the key picture before."""
    INTER = 2
    """A further key picture of the group, and the scaffold of the frames since the key picture before."""
    AUDIO = 8
    """A run of Opus packets."""


PICTURES = (PacketType.INTRA, PacketType.INTER)
"""Types of the packets that carry frames, nearly always with a key picture."""


@dataclass(frozen=True)
class Packet:
    """One packet. `time`: frames complete after it; `type` may be an unknown optional number."""

    type: int
    time: int
    payload: bytes

    @property
    def is_picture(self) -> bool:
        """Whether it carries frames: INTRA or INTER."""
        return self.type in PICTURES

    def __repr__(self) -> str:
        return f"Packet(type={self.type}, time={self.time}, payload=<{len(self.payload)} bytes>)"

    def to_bytes(self, previous_time: int) -> bytes:
        """Serialise after a packet at `previous_time`."""
        body = varint(len(self.payload) << 4 | self.type) + varint(self.time - previous_time)
        body += self.payload
        return bytes(body + crc32c(body).to_bytes(4, "little"))


Read = Callable[[int], bytes]
"""Reads up to n bytes; fewer only at the end."""


def read_packet(read: Read, previous_time: int, limits: Limits = DEFAULT_LIMITS) -> Packet:
    """Read one packet after one at `previous_time`. Raises a BitstreamError that says what is wrong."""
    head = bytearray()

    def take(count: int) -> bytes:
        data = read(count)
        if len(data) < count:
            raise TruncatedStreamError(
                "the stream ends early: its tail is missing, copy the file again"
            )
        head.extend(data)
        return data

    tag = read_varint(take)
    kind, length = tag & 15, tag >> 4
    if length > limits.packet_bytes:
        raise LimitError(f"a packet of {length} bytes exceeds the limit of {limits.packet_bytes}")
    time = previous_time + read_varint(take)
    if time > limits.frames:
        raise LimitError(f"frame {time} exceeds the limit of {limits.frames} frames")
    payload = take(length)
    body = bytes(head)
    if crc32c(body) != int.from_bytes(take(4), "little"):
        raise ChecksumError(
            f"the packet after frame {previous_time} is damaged (CRC-32C mismatch): copy the file again"
        )
    if kind < OPTIONAL and kind not in tuple(PacketType):
        raise VersionError(f"packet type {kind} is not known: install a newer gsvc")
    return Packet(kind, time, payload)
