"""RTP headers (RFC 3550, section 5.1) and the 90 kHz clock."""

import struct
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from gsvc.codec.errors import BitstreamError

CLOCK_RATE = 90_000
"""Ticks of an RTP timestamp in a second, as for all video payloads (RFC 3551)."""
PAYLOAD_TYPE = 96
"""The first of the dynamic payload types (RFC 3551, section 6)."""
RTP_HEADER_BYTES = 12

_LAYOUT = struct.Struct("!BBHII")
_VERSION = 2


@dataclass(frozen=True)
class RtpPacket:
    """One RTP packet."""

    sequence: int
    """0-65535."""
    timestamp: int
    """Ticks of the 90 kHz clock, 0 to 2^32 - 1."""
    ssrc: int
    """The source, 0 to 2^32 - 1."""
    payload: bytes
    marker: bool = False
    payload_type: int = PAYLOAD_TYPE
    """0-127."""

    def to_bytes(self) -> bytes:
        """The 12 bytes of the header, then the payload."""
        kind = self.marker << 7 | self.payload_type
        head = _LAYOUT.pack(_VERSION << 6, kind, self.sequence, self.timestamp, self.ssrc)
        return head + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> "RtpPacket":
        """Parse; contributing sources, an extension and padding are skipped.

        Raises BitstreamError for any other datagram.
        """
        if len(data) < RTP_HEADER_BYTES or data[0] >> 6 != _VERSION:
            raise BitstreamError("a datagram is not RTP of version 2: is the sender a gsvc?")
        first, kind, sequence, timestamp, ssrc = _LAYOUT.unpack_from(data)
        begin, end = RTP_HEADER_BYTES + 4 * (first & 15), len(data)
        if first >> 4 & 1:  # an extension: its length in words follows the sources
            begin += 4 + 4 * int.from_bytes(data[begin + 2 : begin + 4], "big")
        if first >> 5 & 1:  # padding: its last byte is its length
            end -= max(1, data[-1])
        if begin > end:
            raise BitstreamError("an RTP header is longer than its datagram: it is damaged")
        return cls(sequence, timestamp, ssrc, data[begin:end], bool(kind >> 7), kind & 127)


def rtp_timestamp(pts: int, time_base: Fraction) -> int:
    """A presentation time as an RTP timestamp: to the nearest tick, modulo 2^32 (13 hours)."""
    return floor(pts * time_base * CLOCK_RATE + Fraction(1, 2)) % (1 << 32)


def presentation_time(timestamp: int, time_base: Fraction) -> int:
    """The presentation time of an unwrapped RTP timestamp.

    Undoes `rtp_timestamp` exactly: a stream's tick is never shorter than the RTP clock's.
    """
    return floor(Fraction(timestamp, CLOCK_RATE) / time_base + Fraction(1, 2))


def unwrap(value: int, near: int, bits: int) -> int:
    """The number closest to `near` that is `value` modulo 2^bits and at least 0."""
    half = 1 << bits - 1
    number = near + (value - near + half) % (1 << bits) - half
    return number if number >= 0 else number + (1 << bits)
