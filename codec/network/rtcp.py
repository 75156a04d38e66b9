"""RTCP reports (RFC 3550, section 6) and feedback (RFC 4585), on the port of RTP (RFC 5761).

Packets are of reduced size (RFC 5506), without SDES, one or several in a datagram.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.network.stats import IP_UDP_BYTES

_SENDER, _RECEIVER, _BYE, _APP, _TRANSPORT, _PAYLOAD = 200, 201, 203, 204, 205, 206
_NACK = _PLI = 1  # formats of _TRANSPORT and of _PAYLOAD
_TMMBR = 3  # another of _TRANSPORT
_PICTURES, _NAME = 1, b"GSVC"  # subtype and name of the APP packet of `PictureLimit`
_HEAD = struct.Struct("!BBHI")
_INFO = struct.Struct("!QIII")
_BLOCK = struct.Struct("!IIIIII")
_EPOCH = 2_208_988_800  # seconds from 1900, the epoch of NTP, to 1970


@dataclass(frozen=True)
class SenderReport:
    """Ties the source's RTP timestamps to the time of day (RFC 3550, section 6.4.1)."""

    ssrc: int
    ntp: int
    timestamp: int
    packets: int
    octets: int


@dataclass(frozen=True)
class ReportBlock:
    """How one source arrives: `fraction_lost` in 1/256 since the last report, `lost` in all,
    `jitter` in RTP ticks, `delay` since the sender report `last_report` in 2^-16 s."""

    source: int
    fraction_lost: int
    lost: int
    highest: int
    jitter: int
    last_report: int
    delay: int


@dataclass(frozen=True)
class ReceiverReport:
    """What the receiver `ssrc` reports of its sources."""

    ssrc: int
    blocks: tuple[ReportBlock, ...]


@dataclass(frozen=True)
class Nack:
    """Requests datagrams of `source` again, by their sequence numbers (generic NACK)."""

    ssrc: int
    source: int
    sequences: tuple[int, ...]


@dataclass(frozen=True)
class PictureLoss:
    """Requests a new group: pictures of `source` cannot be decoded (PLI)."""

    ssrc: int
    source: int


@dataclass(frozen=True)
class BitrateLimit:
    """Asks `source` for no more bits per second, IP and UDP headers included (TMMBR of RFC 5104,
    section 4.2.1); 17 binary digits are kept."""

    ssrc: int
    source: int
    bitrate: float


@dataclass(frozen=True)
class PictureLimit:
    """Asks `source` for no more coded pictures a second than the receiver has time for (APP)."""

    ssrc: int
    source: int
    pictures: float


@dataclass(frozen=True)
class Bye:
    """The source sends no more."""

    ssrc: int


Rtcp = SenderReport | ReceiverReport | Nack | PictureLoss | BitrateLimit | PictureLimit | Bye


def is_rtcp(data: bytes) -> bool:
    """Whether a datagram is RTCP, not RTP (RFC 5761, section 4)."""
    return len(data) > 1 and 192 <= data[1] <= 223


def write_rtcp(packet: Rtcp) -> bytes:
    """Serialise one packet."""
    match packet:
        case SenderReport():
            info = _INFO.pack(packet.ntp, packet.timestamp, packet.packets, packet.octets)
            return _packed(0, _SENDER, packet.ssrc, info)
        case ReceiverReport():
            blocks = b"".join(
                _BLOCK.pack(b.source, b.fraction_lost << 24 | b.lost, *astuple(b)[3:])
                for b in packet.blocks
            )
            return _packed(len(packet.blocks), _RECEIVER, packet.ssrc, blocks)
        case Nack():
            words = b"".join(struct.pack("!HH", *pair) for pair in _pairs(packet.sequences))
            return _packed(_NACK, _TRANSPORT, packet.ssrc, packet.source.to_bytes(4) + words)
        case PictureLoss():
            return _packed(_PLI, _PAYLOAD, packet.ssrc, packet.source.to_bytes(4, "big"))
        case BitrateLimit():
            # A mantissa of 17 bits times a power of 2, and the headers' bytes in a datagram.
            exponent = max(0, int(packet.bitrate).bit_length() - 17)
            value = exponent << 26 | int(packet.bitrate) >> exponent << 9 | IP_UDP_BYTES
            entry = struct.pack("!III", 0, packet.source, value)
            return _packed(_TMMBR, _TRANSPORT, packet.ssrc, entry)
        case PictureLimit():
            value = min(0xFFFFFFFF, round(packet.pictures * 65536))
            body = _NAME + struct.pack("!II", packet.source, value)
            return _packed(_PICTURES, _APP, packet.ssrc, body)
        case Bye():
            return _packed(1, _BYE, packet.ssrc, b"")


def read_rtcp(data: bytes) -> Iterator[Rtcp]:
    """The packets of a datagram; unknown kinds are skipped. Raises BitstreamError at damage."""
    while data:
        if len(data) < _HEAD.size:
            raise BitstreamError("an RTCP packet is cut short: the datagram is damaged")
        first, kind, words, ssrc = _HEAD.unpack_from(data)
        size = 4 * (words + 1)
        if first >> 6 != 2 or not _HEAD.size <= size <= len(data):
            raise BitstreamError("a datagram is not RTCP of version 2: it is damaged")
        body, data = data[_HEAD.size : size], data[size:]
        try:
            packet = _read(kind, first & 31, ssrc, body)
        except struct.error as error:
            raise BitstreamError("an RTCP packet is too short: it is damaged") from error
        if packet:
            yield packet


def ntp_time(seconds: float) -> int:
    """NTP timestamp (64 bits, 2^-32 s since 1900) of a time of day in seconds since 1970."""
    return int((seconds + _EPOCH) * (1 << 32)) % (1 << 64)


def time_of_day(ntp: int) -> float:
    """Seconds since 1970 of an NTP timestamp."""
    return ntp / (1 << 32) - _EPOCH


def middle(ntp: int) -> int:
    """The middle 32 bits of an NTP timestamp: seconds modulo 2^16, in units of 2^-16 s."""
    return ntp >> 16 & 0xFFFFFFFF


def _read(kind: int, count: int, ssrc: int, body: bytes) -> Rtcp | None:
    if kind == _SENDER:
        return SenderReport(ssrc, *_INFO.unpack_from(body))
    if kind == _RECEIVER:
        blocks = [_BLOCK.unpack_from(body, at * _BLOCK.size) for at in range(count)]
        return ReceiverReport(
            ssrc, tuple(ReportBlock(b[0], b[1] >> 24, b[1] & 0xFFFFFF, *b[2:]) for b in blocks)
        )
    if (kind, count) == (_TRANSPORT, _NACK):
        (source,) = struct.unpack_from("!I", body)
        numbers = (
            (first + bit) % (1 << 16)
            for first, mask in struct.iter_unpack("!HH", body[4:])
            for bit in range(17)
            if (mask << 1 | 1) >> bit & 1
        )
        return Nack(ssrc, source, tuple(numbers))
    if (kind, count) == (_PAYLOAD, _PLI):
        return PictureLoss(ssrc, *struct.unpack_from("!I", body))
    if (kind, count) == (_TRANSPORT, _TMMBR):
        source, word = struct.unpack_from("!II", body, 4)
        return BitrateLimit(ssrc, source, float((word >> 9 & 0x1FFFF) << (word >> 26)))
    if (kind, count) == (_APP, _PICTURES) and body[:4] == _NAME:
        source, value = struct.unpack_from("!II", body, 4)
        return PictureLimit(ssrc, source, value / 65536)
    return Bye(ssrc) if kind == _BYE else None


def _packed(count: int, kind: int, ssrc: int, body: bytes) -> bytes:
    return _HEAD.pack(2 << 6 | count, kind, 1 + len(body) // 4, ssrc) + body


def _pairs(sequences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of a number and a bit mask of the 16 numbers after it (RFC 4585, section 6.2.1)."""
    left = list(sequences)
    while left:
        first = left.pop(0)
        mask = 0
        while left and 1 <= (left[0] - first) % (1 << 16) <= 16:
            mask |= 1 << (left.pop(0) - first) % (1 << 16) - 1
        yield first, mask
