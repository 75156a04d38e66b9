"""Packets, varints and payloads: framing that notices damage and never reads past its data."""

import io
import random
from fractions import Fraction

import pytest
from google_crc32c import value as crc32c

from gsvc import (
    BitstreamError,
    ChecksumError,
    Encoder,
    LimitError,
    Limits,
    Packet,
    PacketType,
    TruncatedStreamError,
    VersionError,
    VideoFormat,
)
from gsvc.codec.bitstream.container import PICTURES, Cutter, read_packet, read_varint, varint
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS
from gsvc.codec.bitstream.group import split_payload
from scaffolds import join_payload


def read(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Packet:
    return read_packet(io.BytesIO(data).read, limits)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 2**28, 2**35 - 1])
def test_varints_come_back(value: int) -> None:
    data = varint(value)
    assert len(data) == max(1, -(-value.bit_length() // 7))
    assert read_varint(Cutter(data).take) == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff", b"\xff" * 5 + b"\0"])
def test_bad_varints_are_refused(data: bytes) -> None:
    with pytest.raises(BitstreamError):
        read_varint(Cutter(data).take)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 1023, 1024, 70_000])
@pytest.mark.parametrize("kind", [*PacketType, 15])
def test_packets_come_back_with_little_overhead(kind: int, size: int) -> None:
    frames = 34 if kind in PICTURES else 0
    packet = Packet(kind, frames, random.Random(size).randbytes(size))
    data = packet.to_bytes()
    assert read(data) == packet
    assert len(data) - size <= 8


def test_messages_come_back() -> None:
    """By what users call: each message is one packet."""
    packet = Packet(PacketType.INTER, 3, b"payload")
    back = Packet.from_bytes(packet.to_bytes())
    assert back == packet and back.type is PacketType.INTER
    for data in (b"", packet.to_bytes()[:-1], packet.to_bytes() + b"\0", bytes(40)):
        with pytest.raises(BitstreamError):
            Packet.from_bytes(data)
    with pytest.raises(LimitError):
        Packet.from_bytes(packet.to_bytes(), Limits(packet_bytes=6))
    with pytest.raises(TypeError, match="give bytes"):
        Packet.from_bytes(packet)  # type: ignore[arg-type]


def test_literal_bytes_stay() -> None:
    data = Packet(PacketType.INTER, 130, b"scaffold and picture").to_bytes()
    assert data.hex() == "c202" + "8201" + b"scaffold and picture".hex() + "6e6997bf"


def test_every_flipped_bit_is_noticed() -> None:
    data = Packet(PacketType.INTRA, 9, b"some payload of thirty bytes..").to_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BitstreamError):
            read(bytes(damaged))


def test_every_missing_tail_is_noticed() -> None:
    data = Packet(PacketType.INTRA, 9, b"payload").to_bytes()
    for size in range(len(data)):
        with pytest.raises(TruncatedStreamError):
            read(data[:size])


def test_unknown_required_types_are_refused_and_optional_ones_kept() -> None:
    with pytest.raises(VersionError, match="type 5"):
        read(Packet(5, 1, b"").to_bytes())
    assert read(Packet(13, 0, b"new").to_bytes()).payload == b"new"


def test_limits_hold_before_anything_is_read() -> None:
    def no_payload(count: int) -> bytes:
        assert count < 100, "the payload must not be asked for"
        return head.read(count)

    head = io.BytesIO(varint(1 << 34) + varint(1))
    with pytest.raises(LimitError, match="bytes"):
        read_packet(no_payload)
    head = io.BytesIO(varint(0) + varint(1 << 34))
    with pytest.raises(LimitError, match="frames"):
        read_packet(no_payload)
    with pytest.raises(LimitError):
        read(Packet(PacketType.INTRA, 1, bytes(9)).to_bytes(), limits=Limits(packet_bytes=8))


def test_checksum_covers_the_head() -> None:
    body = varint(3 << 4 | PacketType.INTER) + varint(1) + b"abc"
    other = varint(3 << 4 | PacketType.INTRA) + varint(1) + b"abc"
    with pytest.raises(ChecksumError):
        read(other + crc32c(body).to_bytes(4, "little"))


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (200, 0), (127, 3000)])
def test_payloads_split_as_joined(sizes: tuple[int, int]) -> None:
    scaffold, unit = bytes(sizes[0]), b"u" * sizes[1]
    assert split_payload(join_payload(scaffold, unit)) == (scaffold, unit)


@pytest.mark.parametrize("payload", [b"", b"\x80", b"\x05abc", varint(1 << 34) + b"abc"])
def test_payloads_that_do_not_add_up_are_refused(payload: bytes) -> None:
    with pytest.raises(BitstreamError):
        split_payload(payload)


def test_a_packet_prints_short() -> None:
    told = repr(Packet(2, 12, b"abc", number=3))
    assert told == "Packet(INTER, frames=12, payload=<3 bytes>, number=3)"
    assert repr(Packet(13, 0, b"")) == "Packet(13, frames=0, payload=<0 bytes>)"


def test_the_bytes_of_a_header_are_told_from_a_damaged_packet() -> None:
    header = Encoder(VideoFormat(64, 48, Fraction(1, 25), Fraction(25))).header
    with pytest.raises(BitstreamError, match=r"Header\.from_bytes reads it"):
        Packet.from_bytes(header.to_bytes())
