"""Packets to datagrams and back: RTP, units, redundancy, parity, the reorder buffer."""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from gsvc import (
    BitstreamError,
    ConfigError,
    Depacketizer,
    Header,
    Packet,
    Packetizer,
    PacketType,
    ReorderLimits,
    VideoFormat,
    WireSettings,
)
from gsvc.codec.bitstream.container import varint
from gsvc.codec.network.link_rate import pictures_within
from gsvc.codec.network.rtp import (
    PacketPiece,
    PayloadUnit,
    RtpPacket,
    UnitKind,
    presentation_time,
    read_units,
    rtp_timestamp,
    unwrap,
)
from gsvc.codec.network.stats import wire_bits

TIME_BASE = Fraction(1001, 30_000)
HEADER = Header(VideoFormat(64, 48, TIME_BASE, 1 / TIME_BASE), level=1)
PLAIN = WireSettings(redundancy=0, parity_span=0)
INTERVAL = 0.1
"""Seconds from packet to packet."""


def stream(sizes: Sequence[int], group: int = 8, first: int = 0, shift: int = 0) -> list[Packet]:
    """Picture packets with these payloads, an INTRA every `group`, and the end."""
    random_bytes = random.Random(len(sizes)).randbytes
    packets, intra = [], first
    for number, size in enumerate(sizes, first):
        kind = PacketType.INTER if (number - first) % group else PacketType.INTRA
        intra = number if kind == PacketType.INTRA else intra
        pts = 3 * number + shift
        packets.append(Packet(kind, 3, random_bytes(size), pts, 3, number, intra))
    end = Packet(PacketType.END, 0, varint(len(sizes)), packets[-1].pts, 0)
    return [*packets, end]


def sent(packets: Iterable[Packet], wire: WireSettings | None = None) -> list[tuple[float, bytes]]:
    """Datagrams, each with its time, every packet sent as soon as it is there."""
    packetizer = Packetizer(HEADER, 77, wire, sequence=65_530)
    timed = []
    for index, packet in enumerate(packets):
        for datagram in packetizer.packetize([packet]):
            timed.append((index * INTERVAL, datagram.to_bytes()))
    return timed


def received(
    datagrams: Iterable[tuple[float, bytes]], depacketizer: Depacketizer | None = None
) -> list[Packet]:
    """All packets that come out, to the last one that is waited for."""
    depacketizer = depacketizer or Depacketizer()
    packets, now = [], 0.0
    for now, datagram in datagrams:
        packets += depacketizer.push(datagram, now)
    for _ in range(200):
        now += 0.3
        packets += depacketizer.poll(now)
    assert depacketizer.depth == 0 or depacketizer.needs_key
    return packets


def same(packets: Sequence[Packet], others: Sequence[Packet]) -> None:
    """Equal but for what the wire does not carry: the duration of the first one and of the end."""
    bare = [[replace(packet, duration=None) for packet in side] for side in (packets, others)]
    assert bare[0] == bare[1]


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 6000), min_size=1, max_size=20),
    mtu=st.integers(96, 1500),
    redundancy=st.integers(0, 4),
    span=st.integers(0, 6),
)
def test_what_is_sent_arrives(sizes: list[int], mtu: int, redundancy: int, span: int) -> None:
    packets = stream(sizes, group=3)
    wire = WireSettings(mtu, redundancy, span)
    datagrams = sent(packets, wire)
    assert max(len(datagram) for _, datagram in datagrams) <= mtu
    same(received(datagrams), packets)


def test_durations_and_groups_come_back() -> None:
    packets = stream([300] * 10, group=4)
    first, *others = received(sent(packets))[:-1]
    assert first == replace(packets[0], duration=None)
    assert others == packets[1:-1]


def test_objects_that_share_a_datagram_with_a_picture_do_no_harm() -> None:
    packets = stream([100] * 9)
    depacketizer, packetizer = Depacketizer(), Packetizer(HEADER, 1)
    came: list[Packet] = []
    for packet in packets:
        objects = Packet(PacketType.OBJECTS, 0, b"objects", duration=0)
        for datagram in packetizer.packetize([objects, packet]):
            came += depacketizer.push(datagram.to_bytes(), 0.0)
    same([p for p in came if p.type != PacketType.OBJECTS], packets)
    assert depacketizer.counts.damaged == depacketizer.counts.repeated == 0
    assert isinstance(came[0].type, PacketType)


def test_packets_that_are_ready_together_share_datagrams() -> None:
    packets = stream([100] * 12, group=12)
    datagrams = Packetizer(HEADER, 1, PLAIN).packetize(packets)
    assert len(datagrams) == 3  # the INTRA has its own
    same(received((0.0, datagram.to_bytes()) for datagram in datagrams), packets)


@settings(max_examples=40)
@given(st.permutations(list(range(12))))
def test_order_on_the_way_does_not_matter(order: list[int]) -> None:
    packets = stream([700] * 5, group=5)
    datagrams = [datagram for _, datagram in sent(packets, PLAIN)]
    shuffled = [datagrams[index] for index in order if index < len(datagrams)]
    same(received((0.001 * i, d) for i, d in enumerate(shuffled)), packets)


def test_duplicates_are_dropped() -> None:
    packets = stream([700, 3000, 20, 5000])
    twice = [timed for timed in sent(packets) for _ in range(2)]
    depacketizer = Depacketizer()
    same(received(twice, depacketizer), packets)
    assert depacketizer.tracker.duplicates == len(twice) / 2


@pytest.mark.parametrize("wire", [WireSettings(), WireSettings(mtu=480, redundancy=3)], ids=str)
def test_any_one_datagram_may_be_lost(wire: WireSettings) -> None:
    """Redundancy and parity repair it; what is too large for either is a gap."""
    packets = stream([2500, 200, 150, 200, 90, 2500, 200, 210], group=5)
    datagrams = sent(packets, wire)
    for gone in range(len(datagrams) - 1):
        depacketizer = Depacketizer()
        came = received(datagrams[:gone] + datagrams[gone + 1 :], depacketizer)
        in_order = [packet.number for packet in came if packet.is_picture]
        assert in_order == list(range(8)), gone
        assert depacketizer.counts.lost == 0


def test_small_datagrams_leave_pictures_what_is_foretold() -> None:
    """Sizes of a talking head's pictures over a link of 8 kbit/s."""
    sizes = [719, 106, 121, 44, 88, 48, 72, 41, 350, 62, 70, 45]
    sizes += [612, 69, 90, 37, 113, 29, 47, 26, 223, 38, 37, 21]
    wire = WireSettings(mtu=240)
    bits = sum(wire_bits(datagram) for _, datagram in sent(stream(sizes, group=12), wire))
    share = 8 * sum(sizes) / bits * 0.95  # without look-ahead, 5 % stay free
    assert pictures_within(8_000, 0, wire) == pytest.approx(8_000 * share, rel=0.1)
    bare = replace(PLAIN, mtu=240)
    assert pictures_within(8_000, 0, bare) < 0.9 * pictures_within(8_000, 0, PLAIN)


def test_a_picture_in_one_datagram_has_no_parity_unless_each_has() -> None:
    """On a thin link its headers and parity cost more quality than losses."""
    for span, datagrams in ((4, 2), (1, 3), (0, 2)):
        assert len(sent(stream([900, 20]), WireSettings(parity_span=span))) == datagrams + 1


@pytest.mark.parametrize("is_answered", [True, False])
def test_one_way_any_picture_in_pieces_may_lose_one(is_answered: bool) -> None:
    """Nobody can ask for it again, and no copy of it fits into a datagram."""
    packetizer = Packetizer(HEADER, 77, WireSettings(mtu=240))
    packetizer.is_answered = is_answered
    made = [packetizer.packetize([packet]) for packet in stream([50, 400, 20, 20])]
    datagrams = [(0.1 * at, one.to_bytes()) for at, some in enumerate(made) for one in some]
    numbers = [packet.number for packet in received(datagrams[:1] + datagrams[2:])]
    assert (1 in numbers) != is_answered and {0, 2, 3} <= set(numbers)


@pytest.mark.parametrize("lost", [range(3, 13), (0, 5, 8, 17), (2, 7, 20, 24)])
def test_a_picture_of_many_pieces_bears_several_losses(lost: Sequence[int]) -> None:
    """Two of a stripe are lost, or a parity with them: another split has what repairs them."""
    packets = stream([4000])
    datagrams = sent(packets, WireSettings(mtu=240, parity_span=2))
    assert len(datagrams) == 20 + 5 + 6 + 1
    same(received(one for at, one in enumerate(datagrams) if at not in lost), packets)


def test_without_redundancy_a_loss_is_a_gap_up_to_the_next_group() -> None:
    packets = stream([200] * 12, group=6)
    datagrams = sent(packets, PLAIN)
    depacketizer = Depacketizer()
    came = received(datagrams[:2] + datagrams[3:], depacketizer)
    pictures = [packet for packet in came if packet.is_picture]
    assert [packet.number for packet in pictures] == [0, 1, *range(3, 12)]
    assert [packet.group for packet in pictures] == [*[0] * 5, *[6] * 6]
    assert pictures[2].duration is None and pictures[2].pts == 9
    assert depacketizer.counts.lost == 1


def test_what_waits_is_given_up_in_time() -> None:
    datagrams = sent(stream([200] * 4), PLAIN)
    depacketizer = Depacketizer(reorder=ReorderLimits(seconds=0.5))
    assert [p.number for p in depacketizer.push(datagrams[0][1], 0.0)] == [0]
    assert depacketizer.push(datagrams[2][1], 1.0) == []
    assert depacketizer.poll(1.49) == []
    assert [p.number for p in depacketizer.poll(1.51)] == [2]


def test_the_pieces_of_a_picture_come_slowly_over_a_thin_link() -> None:
    """Of the first picture too, and nobody asks for another meanwhile."""
    datagrams = [data for _, data in sent(stream([3000, 20]))]
    receiver = Depacketizer()
    now, asked, packets = 0.0, [], []
    for data in datagrams[:4]:  # three fragments and their parity
        packets += receiver.push(data, now)
        packets += receiver.poll(now + 0.9)
        asked.append(receiver.needs_key)
        now += 1.0
    assert [packet.is_intra for packet in packets] == [True] and not any(asked)


def test_what_was_given_up_may_come_late() -> None:
    packets = stream([200] * 5)
    datagrams = sent(packets, PLAIN)
    depacketizer = Depacketizer()
    for index in (0, 1, 3):
        depacketizer.push(datagrams[index][1], 0.0)
    assert [p.number for p in depacketizer.poll(0.3)] == [3]
    assert depacketizer.needs_key
    (late,) = depacketizer.push(datagrams[2][1], 0.5)
    assert (late.number, late.pts, late.group) == (2, packets[2].pts, 0)
    assert not depacketizer.needs_key
    assert depacketizer.push(datagrams[2][1], 0.6) == []


@pytest.mark.parametrize("bound", [ReorderLimits(60, packets=5), ReorderLimits(60, bytes=3000)])
def test_what_waits_is_bounded(bound: ReorderLimits) -> None:
    datagrams = sent(stream([400] * 40, group=40), PLAIN)
    depacketizer = Depacketizer(reorder=bound)
    depacketizer.push(datagrams[0][1], 0.0)
    came = []
    for _, datagram in datagrams[2:]:
        came += depacketizer.push(datagram, 0.0)
        assert depacketizer.depth <= 6
    assert came[-2].number == 39 and depacketizer.counts.lost == 1


def test_pieces_that_never_become_a_packet_are_bounded() -> None:
    depacketizer = Depacketizer(reorder=ReorderLimits(60, bytes=20_000))
    for sequence in range(3000):
        piece = PayloadUnit(
            UnitKind.PIECE, sequence // 20, bytes(500), piece=PacketPiece(sequence % 20, 21)
        )
        rtp = RtpPacket(sequence, 0, 77, piece.to_bytes())
        depacketizer.push(rtp.to_bytes(), 0.0)
        assert depacketizer.depth <= 20_000 // 500


def test_a_receiver_joins_at_an_intra_packet() -> None:
    packets = stream([200] * 14, group=5, first=65_530)
    datagrams = [timed for timed in sent(packets) if timed[0] >= 3 * INTERVAL]
    depacketizer = Depacketizer()
    came = received(datagrams, depacketizer)
    # Numbers count on where 16 bits wrap around.
    assert [packet.number for packet in came[:-1]] == list(range(65_535, 65_544))
    assert came[0].is_intra and came[0].pts == packets[5].pts
    assert depacketizer.header == HEADER


def rest_of(packets: Sequence[Packet]) -> list[int | None]:
    return [packet.number for packet in packets if packet.is_picture]


@pytest.mark.parametrize("ahead", [50, 250, 300, 20_000, 65_000])
@pytest.mark.parametrize("kind", [UnitKind.PICTURE, UnitKind.PIECE, UnitKind.OTHER])
def test_one_forged_number_does_little_harm(ahead: int, kind: UnitKind) -> None:
    packets = stream([200] * 400, group=20)
    depacketizer = Depacketizer()
    came = []
    for index, (now, datagram) in enumerate(sent(packets)):
        came += depacketizer.push(datagram, now)
        if index == 100:
            piece = PacketPiece(0, 3) if kind == UnitKind.PIECE else None
            data = Packet(PacketType.INTER, 1, b"forged").to_bytes()
            number = packets[100].number or 0
            forged = PayloadUnit(kind, number + ahead, data, back=5, piece=piece)
            rtp = RtpPacket(number, 0, 77, forged.to_bytes())
            came += depacketizer.push(rtp.to_bytes(), now)
    numbers = [p.number for p in came if p.is_picture and p.payload != b"forged"]
    missing = 400 - len(set(numbers))
    assert missing <= (84 if ahead <= 250 else 0)  # what was behind, and the rest of its group
    assert depacketizer.counts.lost <= ahead + 20 if ahead <= 250 else not depacketizer.counts.lost


@pytest.mark.parametrize("ahead", [400, 2_000, 8_000, 35_000, 65_000])
def test_a_forged_sequence_number_loses_nothing(ahead: int) -> None:
    packets = stream([200] * 60, group=20)
    depacketizer = Depacketizer()
    came = []
    for index, (now, datagram) in enumerate(sent(packets, PLAIN)):
        came += depacketizer.push(datagram, 10 * now)  # what is forgotten is forgotten by then
        if index == 5:
            forged = RtpPacket((65_530 + index + ahead) % 65_536, 0, 77, b"")
            came += depacketizer.push(forged.to_bytes(), 10 * now)
    same(came, packets)


@pytest.mark.parametrize("hours", [-6, -1, 1, 6])
@pytest.mark.parametrize("intra", [False, True])
def test_a_wrong_time_is_not_believed(hours: int, intra: bool) -> None:
    packets = stream([200] * 60, group=20)
    datagrams = sent(packets, WireSettings(parity_span=0))
    at = 20 if intra else 30
    rtp = RtpPacket.from_bytes(datagrams[at][1])
    wrong = replace(rtp, timestamp=(rtp.timestamp + hours * 3600 * 90_000) % (1 << 32))
    datagrams[at] = datagrams[at][0], wrong.to_bytes()
    came = received(datagrams)
    pictures = [packet for packet in came if packet.is_picture]
    # The next datagram's copy restores an INTER packet; an INTRA one takes its group along.
    assert len(pictures) == (41 if intra else 60)
    assert rest_of(pictures[-20:]) == [*range(40, 60)]
    assert {after.pts - before.pts for before, after in pairwise(pictures[-20:])} == {3}  # type: ignore[operator]


@pytest.mark.parametrize("gone", [100, 300, 5_000, 33_000, 60_000, 65_100, 65_500, 65_535])
def test_an_outage_of_any_length_heals_at_the_next_intra(gone: int) -> None:
    before, after = stream([200] * 30, group=10), stream([200] * 30, group=10, first=gone + 25)
    depacketizer = Depacketizer()
    packetizer = Packetizer(HEADER, 77, PLAIN)
    came = []
    for index, packet in enumerate(before[:-1]):
        for datagram in packetizer.packetize([packet]):
            came += depacketizer.push(datagram.to_bytes(), INTERVAL * index)
    packetizer._sequence = (packetizer._sequence + gone) % (1 << 16)
    now = 3 + gone * INTERVAL
    for packet in after[5:]:  # the rest of a group first
        for datagram in packetizer.packetize([packet]):
            now += INTERVAL
            came += depacketizer.push(datagram.to_bytes(), now)
    came += depacketizer.poll(now + 1)
    healed = [packet for packet in came if packet.is_picture][-20:]
    first = healed[0].number or 0
    assert first % (1 << 16) == (gone + 35) % (1 << 16)
    assert rest_of(healed) == [*range(first, first + 20)]
    assert [packet.pts for packet in healed] == [packet.pts for packet in after[10:-1]]
    assert came[-1].type == PacketType.END and not depacketizer.needs_key


def test_a_copy_from_before_a_pause_breaks_nothing() -> None:
    """The INTRA packet after it comes with one."""
    depacketizer, packets = Depacketizer(), [*stream([200] * 8)[:-1], *stream([200], 8, 8, 36_000)]
    assert len(received(sent(packets), depacketizer)) == 10
    assert not depacketizer.needs_key and not depacketizer.counts.damaged


def test_the_end_waits_for_the_pictures_before_it() -> None:
    packets = stream([200] * 4)
    *others, last, end = sent(packets, PLAIN)
    depacketizer = Depacketizer()
    for now, datagram in others:
        depacketizer.push(datagram, now)
    assert depacketizer.push(end[1], 0.5) == []
    assert [p.number for p in depacketizer.push(last[1], 0.6)] == [3, None]


@pytest.mark.parametrize("loss", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("burst", [1, 4])
def test_loss_leaves_gaps_and_nothing_else(loss: float, burst: int) -> None:
    packets = stream([2000 if n % 10 == 0 else 180 for n in range(300)], group=10)
    chance = random.Random(burst)
    for wire in (PLAIN, WireSettings(redundancy=2)):
        depacketizer = Depacketizer()
        datagrams, left = [], 0
        for timed in sent(packets, wire):
            left = burst if not left and chance.random() < loss / burst else left
            if left:
                left -= 1
            else:
                datagrams.append(timed)
        came = received(datagrams, depacketizer)
        by_number = {packet.number: packet for packet in packets}
        for packet in came:
            if packet.is_picture:
                assert packet.payload == by_number[packet.number].payload
                assert packet.pts == by_number[packet.number].pts
        numbers = [packet.number for packet in came if packet.number is not None]
        assert numbers == sorted(set(numbers))
        assert depacketizer.counts.damaged == 0


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=80), max_size=20))
def test_any_bytes_are_ignored_or_counted(datagrams: list[bytes]) -> None:
    depacketizer = Depacketizer()
    for datagram in datagrams:
        assert not depacketizer.push(datagram, 0.0)
        assert not depacketizer.push(RtpPacket(1, 2, 3, datagram).to_bytes(), 0.0)


@settings(max_examples=40)
@given(st.data())
def test_damaged_datagrams_never_give_another_packet(data: st.DataObject) -> None:
    packets = stream([600, 2000, 30, 30, 2500], group=3)
    payloads = {packet.payload for packet in packets}
    depacketizer = Depacketizer()
    came = []
    for now, datagram in sent(packets, WireSettings(mtu=500)):
        damaged = bytearray(datagram)
        if data.draw(st.booleans()):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
        came += depacketizer.push(bytes(damaged), now)
    assert {packet.payload for packet in came} <= payloads


def test_the_wire_format_does_not_change() -> None:
    """Bytes as docs/wire.md has them; the first packet has the stream's header before it."""
    packets = [
        Packet(PacketType.INTRA, 1, b"abcdefgh", 300, 1, 7, 7),
        Packet(PacketType.INTER, 2, b"ij", 302, 2, 8, 7),
        Packet(PacketType.INTER, 1, b"k", 303, 1, 9, 7),
    ]
    packetizer = Packetizer(HEADER, 0x01020304, WireSettings(parity_span=0), sequence=9)
    first, second, third = (packetizer.packetize([packet])[0].to_bytes() for packet in packets)
    piece = "80600009000dbf2401020304" + "400007" + "36" + "00" + "000000010000"
    assert first.hex() == piece + (HEADER.to_bytes() + packets[0].to_bytes()).hex()
    unit = "000008" + "09" + "01" + packets[1].to_bytes().hex()
    assert second.hex() == "8060000a000dd69a01020304" + unit
    copy = "300008" + "0b" + "bb17" + "01" + packets[1].to_bytes().hex()
    unit = "000009" + "08" + "02" + packets[2].to_bytes().hex()
    assert third.hex() == "8060000b000de25501020304" + unit + copy


def test_units_of_an_unknown_kind_are_skipped() -> None:
    known = PayloadUnit(UnitKind.PICTURE, 5, b"data").to_bytes()
    unknown = bytes([3 << 6, 0, 9]) + varint(4) + b"what"
    assert [unit.number for unit in read_units(unknown + known + unknown)] == [5]


@pytest.mark.parametrize(
    "piece",
    [
        PacketPiece(3, 3),
        PacketPiece(0, 0),
        PacketPiece(0, 20_000),
        PacketPiece(2, 8, 2),
        PacketPiece(0, 8, 9),
    ],
)
def test_pieces_that_cannot_be_are_refused(piece: PacketPiece) -> None:
    with pytest.raises(BitstreamError):
        list(read_units(PayloadUnit(UnitKind.PIECE, 0, b"", piece=piece).to_bytes()))


def test_rtp_headers_round_trip_and_extras_are_stepped_over() -> None:
    packet = RtpPacket(65_535, 4_000_000_000, 0xDEADBEEF, b"payload", marker=True)
    assert RtpPacket.from_bytes(packet.to_bytes()) == packet
    plain = packet.to_bytes()
    extras = (
        bytes([plain[0] | 0b110010]) + plain[1:12] + bytes(8)
    )  # padding, extension, two sources
    extras += b"\xbe\xde\0\1abcd" + b"payload" + b"\0\0\3"
    assert RtpPacket.from_bytes(extras).payload == b"payload"
    for size in range(12):
        with pytest.raises(BitstreamError):
            RtpPacket.from_bytes(plain[:size])


@given(
    pts=st.integers(0, 10_000),
    time_base=st.fractions(Fraction(1, 90_000), 1, max_denominator=90_000),
)
def test_presentation_times_survive_the_rtp_clock(pts: int, time_base: Fraction) -> None:
    near = int(pts * time_base * 90_000)
    timestamp = unwrap(rtp_timestamp(pts, time_base), near, 32)
    assert presentation_time(timestamp, time_base) == pts


def test_settings_out_of_range_are_refused() -> None:
    make: list[Callable[[], object]] = [
        lambda: WireSettings(mtu=95),
        lambda: WireSettings(redundancy=-1),
        lambda: WireSettings(parity_span=100),
        lambda: Packetizer(HEADER, 1).packetize([Packet(PacketType.INTER, 1, b"")]),
        lambda: Packetizer(HEADER, 1).packetize([Packet(PacketType.AUDIO, 0, bytes(2000))]),
    ]
    for attempt in make:
        with pytest.raises(ConfigError):
            attempt()


def test_sequence_numbers_wrap() -> None:
    numbers = [RtpPacket.from_bytes(d).sequence for _, d in sent(stream([900] * 10), PLAIN)]
    assert numbers == [n % 65_536 for n in itertools.islice(itertools.count(65_530), len(numbers))]


@pytest.mark.parametrize(
    ("before", "joins", "source", "sequence"),
    [(30, 0, 9, 40_000), (30, 0, 77, 65_530), (200, 0, 77, 200), (40, 8, 77, 65_530)],
)
def test_a_sender_that_restarts_takes_over(
    before: int, joins: int, source: int, sequence: int
) -> None:
    """As the same source, with another header and early times, too, where the receiver joined late;
    what is late of another source changes nothing."""
    again = replace(HEADER, format=replace(HEADER.format, width=HEADER.format.width + 16))
    group, shift = before - joins, 3 * joins
    old, new = stream([200] * before, group=group), stream([200] * 9, group=9, shift=shift)
    depacketizer = Depacketizer()
    end = received(sent(old)[joins:-1], depacketizer)[-1].pts or 0
    assert end == 3 * (before - 1)
    packetizer, came = Packetizer(again, source, PLAIN, sequence=sequence), list[Packet]()
    for number, packet in enumerate(new):
        for datagram in packetizer.packetize([packet]):
            if number == 0:
                continue  # the first picture is lost
            came += depacketizer.push(datagram.to_bytes(), before * INTERVAL + number / 10)
    assert came == [] and depacketizer.needs_key and depacketizer.header == HEADER
    for packet in stream([200] * 3, group=3, first=50, shift=shift):
        for datagram in packetizer.packetize([packet]):
            came += depacketizer.push(datagram.to_bytes(), before * INTERVAL + 2)
    assert [packet.number for packet in came if packet.is_picture] == [50, 51, 52]
    assert depacketizer.header == again and depacketizer.source == source
    late = sent(old)[-2][1]
    assert source == 77 or not (depacketizer.push(late, 120.1) or depacketizer.needs_key)


def test_forged_restarts_neither_take_over_nor_pile_up() -> None:
    old = stream([200] * 30, group=30)
    depacketizer, forged = Depacketizer(), Packetizer(HEADER, 77, PLAIN, sequence=65_530)
    *datagrams, (_, last) = sent(old)
    assert len(received(datagrams, depacketizer)) == 30
    for number in range(2000):
        packet = Packet(PacketType.INTER, 1, number.to_bytes(2), 9, 1, 5, 1)
        forged._sequence = 65_533
        for datagram in forged.packetize([packet]):
            assert depacketizer.push(datagram.to_bytes(), 3.0) == []
    assert [packet.type for packet in depacketizer.push(last, 3.1)] == [PacketType.END]
    assert not depacketizer.needs_key
