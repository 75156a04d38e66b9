"""Whole streams of bytes: packets in order, the end checked, damage anywhere noticed."""

import io
from collections.abc import Callable
from fractions import Fraction

import pytest

from gsvc import (
    BitstreamError,
    ChecksumError,
    ConfigError,
    Header,
    Packet,
    PacketType,
    StreamReader,
    StreamWriter,
    TruncatedStreamError,
    VideoFormat,
)
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.header import HEADER_BYTES

HEADER = Header(VideoFormat(64, 48, Fraction(1, 25), Fraction(25)), 1)
PACKETS = [
    Packet(PacketType.INTRA, 1, b"intra", number=0, group=0),
    Packet(PacketType.AUDIO, 0, b"sound"),
    Packet(PacketType.INTER, 8, b"inter" * 40, number=1, group=0),
    Packet(14, 0, b"something new"),
    Packet(PacketType.END, 0, varint(2)),
]


def stream(packets: list[Packet]) -> bytes:
    file = io.BytesIO()
    writer = StreamWriter(file, HEADER)
    for packet in packets:
        writer.write(packet)
    assert writer.bytes_written == len(file.getvalue())
    return file.getvalue()


def read(data: bytes) -> list[Packet]:
    return list(StreamReader(io.BytesIO(data)))


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read(self, count: int | None = -1) -> bytes:
        return super().read(min(count or 0, 3))


def test_packets_come_back() -> None:
    reader = StreamReader(io.BytesIO(stream(PACKETS)))
    assert reader.header == HEADER
    assert list(reader) == PACKETS


def test_pipes_may_give_short_reads() -> None:
    assert list(StreamReader(Trickle(stream(PACKETS)))) == PACKETS


def test_every_flipped_bit_is_noticed() -> None:
    data = stream(PACKETS)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BitstreamError):
            read(bytes(damaged))


def test_every_missing_tail_is_noticed() -> None:
    data = stream(PACKETS)
    for size in range(len(data)):
        with pytest.raises(TruncatedStreamError):
            read(data[:size])


@pytest.mark.parametrize(
    ("packets", "message"),
    [
        ([PACKETS[0], Packet(PacketType.END, 1, varint(1))], "1 frames"),
        ([*PACKETS[:2], Packet(PacketType.END, 0, varint(2))], "packets were lost"),
        ([PACKETS[0], Packet(PacketType.END, 0, b"")], "shorter"),
        ([PACKETS[0], Packet(PacketType.INTER, 0, b"no frame")], "0 frames"),
        ([PACKETS[0], Packet(PacketType.AUDIO, 3, b"late")], "3 frames"),
    ],
)
def test_packets_that_make_no_stream_are_refused(packets: list[Packet], message: str) -> None:
    with pytest.raises(BitstreamError, match=message):
        read(stream(packets))


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(BitstreamError, match="after the end"):
        read(stream(PACKETS) + b"\0")


def test_a_stream_is_read_once_and_ends_once() -> None:
    reader = StreamReader(io.BytesIO(stream(PACKETS)))
    assert next(iter(reader)).number == 0
    assert [one.number for one in reader] == [None, 1, None, None] and list(reader) == []
    writer = StreamWriter(io.BytesIO(), reader.header)
    writer.write(Packet(PacketType.END, 0, varint(0)))
    with pytest.raises(ConfigError, match="has its END packet"):
        writer.write(PACKETS[0])


def test_a_part_of_a_stream_is_finished() -> None:
    file = io.BytesIO()
    writer = StreamWriter(file, HEADER)
    for packet in PACKETS[:3]:
        writer.write(packet)
    with pytest.raises(TruncatedStreamError, match="its writer was not finished"):
        read(file.getvalue())
    writer.finish()
    writer.finish()
    assert read(file.getvalue())[-1] == PACKETS[-1]


@pytest.mark.parametrize(
    ("kind", "number"),
    [(PacketType.INTRA, 0), (PacketType.INTRA, 1), (PacketType.INTER, 1), (PacketType.INTER, 3)],
)
def test_packets_are_written_in_turn(kind: PacketType, number: int) -> None:
    file = io.BytesIO()
    writer = StreamWriter(file, HEADER)
    for one in PACKETS[:4]:
        writer.write(one)
    data = file.getvalue()
    with pytest.raises(ConfigError, match="follows 1.* after a loss from an INTRA packet on"):
        writer.write(Packet(kind, 1, b"picture", number=number, group=0))
    assert file.getvalue() == data
    writer.write(Packet(PacketType.INTER, 1, b"inter", number=2, group=0))
    writer.write(Packet(PacketType.INTRA, 1, b"intra", number=7, group=7))  # what came after a loss
    file.close()
    with pytest.raises(ConfigError, match="file is closed"):
        writer.write(PACKETS[-1])


def test_a_numbered_message_has_its_place() -> None:
    for place in (
        {},
        {"number": 0, "group": 0, "pts": -3},
        {"number": 9, "group": 7, "pts": 1 << 61},
    ):
        packet = Packet(PacketType.INTER, 2, b"picture", **place)
        message = packet.to_bytes(numbered=True)
        assert Packet.from_bytes(message, numbered=True) == packet
        assert len(message) <= len(packet.to_bytes()) + 7 + 12 * (
            "pts" in place and place["pts"] > 9
        )
        with pytest.raises(BitstreamError, match="give numbered=True"):
            Packet.from_bytes(message)
        with pytest.raises(ChecksumError):
            Packet.from_bytes(bytes([message[0] ^ 1, *message[1:]]), numbered=True)
    with pytest.raises(BitstreamError):
        Packet.from_bytes(message[:3], numbered=True)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_messages_may_be_any_bytes(kind: Callable[[bytes], bytes]) -> None:
    header, packet = stream([])[:HEADER_BYTES], PACKETS[0].to_bytes()
    assert Header.from_bytes(kind(header)).to_bytes() == header
    assert Packet.from_bytes(kind(packet)).to_bytes() == packet


def test_a_header_alone_is_truncated() -> None:
    with pytest.raises(TruncatedStreamError):
        read(stream([])[:HEADER_BYTES])
