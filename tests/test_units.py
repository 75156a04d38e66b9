"""Several coded pictures a packet: they come back, cost little, and damage to one stays there."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import gsvc
from gsvc import BitstreamError, Color, Decoder, DecoderSettings, Header, Packet, PacketType
from gsvc.codec.bitstream.coded_pictures import TemporalUnit, joined, parted
from gsvc.codec.bitstream.group import Coding, GroupReader, GroupWriter, picture_bits, split_payload
from gsvc.codec.bitstream.scaffold import Interval
from gsvc.encoders.svt_av1 import encode_pictures
from scaffolds import join_payload, only

Pictures = Callable[..., list[gsvc.Picture]]
SIZE, COUNT = (64, 48), 33
VIDEO = gsvc.VideoFormat(*SIZE, Fraction(1, 25), Fraction(25))
HEADER = Header(VIDEO, 1, only())
PLAIN, CONCEAL = DecoderSettings(steps=0), DecoderSettings(steps=0, conceal=True)


@pytest.fixture(scope="module")
def units(moving_pictures: Pictures) -> list[bytes]:
    """A picture for every frame, one hierarchical sequence."""
    return encode_pictures(moving_pictures(COUNT), size=SIZE, crf=55, color=Color())


def written(
    units: Sequence[bytes], most: int, header: Header = HEADER, *, alone: bool = False
) -> list[Packet]:
    """A group of these pictures, a frame each, up to `most` a packet."""
    writer, packets = GroupWriter(header, Coding(55, 8, alone)), []
    for start in range(0, len(units), most):
        own = units[start : start + most]
        payload = writer.write([Interval((1,))] * len(own), own)
        kind = PacketType.INTER if start else PacketType.INTRA
        number, end = start // most, start + len(own) - 1
        packets.append(Packet(kind, len(own), payload, end, len(own), number, 0))
    return packets


def decoded(packets: Sequence[Packet], settings: DecoderSettings) -> list[gsvc.Frame]:
    with Decoder(HEADER, settings) as decoder:
        return [frame for packet in packets for frame in decoder.decode(packet)]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("most", [1, 5, COUNT])
def test_units_come_back(units: list[bytes], most: int, alone: bool) -> None:
    reader = GroupReader(HEADER)
    back = [u for packet in written(units, most, alone=alone) for u in reader.read(packet).units]
    assert back == units


def test_many_pictures_take_less_than_their_av1_bytes(units: list[bytes]) -> None:
    packets = written(units, COUNT)
    size = sum(len(packet.to_bytes()) for packet in packets)
    assert size < sum(map(len, units)) - 4 * COUNT
    # What trials reckon with is what it takes, but for framing and layout.
    assert 0 < 8 * size - picture_bits(units, 40) < 120


@pytest.mark.parametrize("alone", [False, True])
def test_fitted_probabilities_save_bytes(moving_pictures: Pictures, alone: bool) -> None:
    pictures = moving_pictures(COUNT, size=(128, 96))
    units = encode_pictures(pictures, size=(128, 96), crf=60, color=Color())
    own = replace(HEADER, format=replace(VIDEO, width=128, height=96))
    before, after = (
        sum(len(one.payload) for one in written(units, 1, header, alone=alone))
        for header in (replace(own, fitted=False), own)
    )
    assert after < 0.9 * before


def test_pictures_that_repeat_take_some_bits(units: list[bytes]) -> None:
    repeats = sum(parted(unit).slot is not None for unit in units)
    assert repeats > COUNT // 3
    more = picture_bits([*units, *[units[2]] * 100], 40) - picture_bits(units, 40)
    assert parted(units[2]).slot is not None and more < 300


@pytest.mark.parametrize(
    "unit",
    [
        bytes([3 << 3 | 2, 2, 0, 0, 4 << 3, 9, 9]),  # a header apart from its tile group
        bytes([6 << 3 | 6, 1 << 3, 1, 0x10]),  # a spatial layer
        bytes([3 << 3 | 2, 1, 0x88, 6 << 3, 0x10]),  # a frame after the one that is shown
        bytes([1 << 3 | 2, 1, 0]) * 2 + bytes([6 << 3, 0x10]),
    ],
)
def test_units_that_packets_cannot_hold_are_refused(unit: bytes) -> None:
    with pytest.raises(BitstreamError, match="re-encode"):
        parted(unit)


@pytest.mark.parametrize("size", [1, 13, 14, 15, 40, 300])
def test_frames_of_any_size_come_back(size: int) -> None:
    rng = np.random.default_rng(size)
    first = TemporalUnit((rng.bytes(40), rng.bytes(size)), None, rng.bytes(11))
    given = [
        joined(unit) for unit in (first, TemporalUnit((), 7), TemporalUnit((rng.bytes(size),)))
    ]
    for count in (1, 2, 3):
        (packet,) = written(given[:count], COUNT)
        assert list(GroupReader(HEADER).read(packet).units) == given[:count]


def test_plain_bytes_must_be_those_of_the_pictures(units: list[bytes]) -> None:
    assert parted(units[2]).slot is not None  # so that every size is coded
    (packet,) = written(units[:3], 3)
    scaffold, plain = split_payload(packet.payload)
    for bytes_left, why in ((plain[:-1], "shorter"), (plain + b"\0", "longer")):
        bent = replace(packet, payload=join_payload(scaffold, bytes_left))
        with pytest.raises(BitstreamError, match=why):
            GroupReader(HEADER).read(bent)


def test_an_interval_longer_than_its_packet_is_refused(units: list[bytes]) -> None:
    writer = GroupWriter(HEADER, Coding(55, 8))
    payload = writer.write([Interval((1,)), Interval((1,) * 30)], units[:2])
    with pytest.raises(BitstreamError, match="more frames than its packet"):
        GroupReader(HEADER).read(Packet(PacketType.INTRA, 9, payload))


@pytest.mark.parametrize("alone", [False, True])
def test_pictures_after_a_lost_packet_are_told_only_where_packets_stand_alone(
    units: list[bytes], alone: bool
) -> None:
    packets = written(units[:16], 4, alone=alone)
    whole = decoded(packets, PLAIN)
    shown = decoded([packets[0], *packets[2:]], CONCEAL)
    assert [frame.pts for frame in shown] == [frame.pts for frame in whole]
    assert all(frame.concealed for frame in shown[4:])
    # They build on the lost one, so they are flagged; but something moves.
    still = all(np.array_equal(frame.pixels, shown[-1].pixels) for frame in shown[8:])
    assert still != alone


def test_a_damaged_picture_ends_its_packet_and_no_frame_before(units: list[bytes]) -> None:
    bad = list(units)
    bad[10] = joined(TemporalUnit((b"\xff" * 30,)))
    packets = written(bad, 8)
    whole = decoded(written(units, 8), PLAIN)
    shown = decoded(packets, CONCEAL)
    assert [frame.pts for frame in shown] == list(range(COUNT))
    assert [frame.concealed for frame in shown] == [n >= 10 for n in range(COUNT)]
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(whole[:10], shown, strict=False))
    with Decoder(HEADER, PLAIN) as decoder:
        decoder.decode(packets[0])
        frames = decoder.frames(packets[1])
        assert [next(frames).pts, next(frames).pts] == [8, 9]
        with pytest.raises(BitstreamError):
            next(frames)
        with pytest.raises(BitstreamError, match="intra"):
            decoder.decode(packets[2])


@pytest.mark.parametrize("most", [None, pytest.param(400, marks=pytest.mark.slow)])
def test_look_ahead_fills_packets(moving_pictures: Pictures, most: int | None) -> None:
    settings = gsvc.EncoderSettings(level=3, preset="fast", max_packet_bytes=most)
    with gsvc.Encoder(VIDEO, settings) as encoder:
        packets = [packet for one in moving_pictures(40) for packet in encoder.encode(one)]
        packets += encoder.flush()
    reader = GroupReader(encoder.header)
    pictures = [packet for packet in packets if packet.is_picture]
    counts = [len(reader.read(packet).units) for packet in pictures]
    assert max(counts) > 1
    sizes = [len(packet.to_bytes()) for packet in packets]
    assert max(sizes) <= (most or 1e9)
    for packet, count, size in zip(pictures, counts, sizes, strict=False):
        assert count == 1 or (packet.frames <= 25 and size < 1200)
