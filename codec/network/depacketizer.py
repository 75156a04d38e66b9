"""RTP datagrams to packets in order: a jitter buffer in bounded memory and time.

`SequenceTracker` counts loss, jitter and duplicates as RFC 3550 has them (sections 6.4.1 and A.1 to
A.8) and says which datagrams to request again. `PendingPacket` assembles one picture packet from
its fragments and their parity.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gsvc.codec.bitstream.container import Packet, PacketType
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, Limits, typed
from gsvc.codec.bitstream.header import Header
from gsvc.codec.network import rtp
from gsvc.codec.network.rtcp import ReportBlock

PIECE_COST = 128
"""Bytes of memory that a piece takes beside its data."""
_Key = TypeVar("_Key", int, tuple[int, int])


@dataclass
class PendingPacket:
    """A picture packet in the jitter buffer, whole or in pieces."""

    since: float
    """When its last piece came, or, without any, when it was found missing."""
    timestamp: int = 0
    group: int = 0
    """Number of the INTRA packet that it builds on."""
    packet: Packet | None = None
    size: int = 0
    _count: int = 0
    _splits: set[int] = field(default_factory=set)
    """Numbers of stripes into which the fragments are split for parity."""
    _fragments: dict[int, bytes] = field(default_factory=dict)
    _parities: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """By the number of stripes, and the stripe."""

    def add(self, piece: rtp.PacketPiece, data: bytes) -> bytes | None:
        """Add a piece and repair what it allows; gives the packet's bytes once all are there.

        Raises BitstreamError for a piece that contradicts those before it.
        """
        self._count = self._count or piece.count
        self._splits |= {piece.stripes} - {0}
        if piece.count != self._count or len(self._splits) > 2:
            raise BitstreamError("pieces of a packet do not fit together: one is damaged")
        if stripe := piece.stripes and (piece.stripes, piece.index):
            self._keep(self._parities, stripe, data)
            self._repair([stripe])
        else:
            self._keep(self._fragments, piece.index, data)
            self._repair(self._stripes_of(piece.index))
        if len(self._fragments) < self._count:
            return None
        return b"".join(self._fragments[index] for index in range(self._count))

    def complete(self, packet: Packet, size: int) -> None:
        """Keep the whole packet of `size` bytes in place of its pieces."""
        self.packet, self.size = packet, size + PIECE_COST
        self._fragments, self._parities = {}, {}

    def _keep(self, pieces: dict[_Key, bytes], index: _Key, data: bytes) -> None:
        if index not in pieces:
            pieces[index] = data
            self.size += len(data) + PIECE_COST

    def _stripes_of(self, fragment: int) -> list[tuple[int, int]]:
        return [(stripes, fragment % stripes) for stripes in self._splits]

    def _repair(self, waiting: list[tuple[int, int]]) -> None:
        """Restore the one fragment that a stripe lacks, if its parity came, then what that allows.
        The packet's last fragment may come back padded with zeros."""
        while waiting:
            stripes, stripe = place = waiting.pop()
            members = range(stripe, self._count, stripes)
            lost = [index for index in members if index not in self._fragments]
            if place in self._parities and len(lost) == 1:
                known = [self._fragments[index] for index in members if index != lost[0]]
                self._keep(self._fragments, lost[0], rtp.parity([*known, self._parities[place]]))
                waiting += self._stripes_of(lost[0])


_WINDOW, _SEEN = 512, 1024
"""Missing datagrams that are remembered, and others. A number further away than the first needs its
successor to count."""
_MAX_JUMP = 3000
"""A larger jump of numbers is a restart of the source, no loss (MAX_DROPOUT of RFC 3550)."""
_REORDERED = 16  # how far before the first datagram that arrived another one is taken
_FIRST_NACK, _NEXT_NACK, _NACKS = 0.01, 0.1, 3
"""Seconds from a gap to its first NACK (reordering fills many), from one to the next; how many."""
_LAST_NACK = 2.0  # seconds from a gap after which nothing waits for it any more
_OUTAGE = 10.0
"""Seconds without a datagram after which sequence numbers may have wrapped around."""


@dataclass
class _Absent:
    """A missing datagram: when it was found missing, when and how often it was requested."""

    since: float
    requested: float = 0.0
    requests: int = 0


class SequenceTracker:
    """Tracks one source. Counts are of datagrams, `now` is in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.received = self.duplicates = self.reordered = self.retransmitted = 0
        self._first = self._highest = -1
        self._follower = -1  # sequence number that would confirm one far away
        self._absent: dict[int, _Absent] = {}
        self._seen: dict[int, int] = {}  # sequence numbers, and hashes of their datagrams
        self._jitter = 0.0
        self._transit: float | None = None
        self._heard = float("-inf")
        self._reported = 0, 0  # expected and received at the last report

    @property
    def expected(self) -> int:
        """Datagrams sent, as far as the numbers that came tell."""
        return self._highest - self._first + 1 if self._first >= 0 else 0

    @property
    def lost(self) -> int:
        """Datagrams that have not come yet."""
        return max(0, self.expected - self.received)

    def arrived(self, packet: rtp.RtpPacket, now: float) -> bool:
        """Note a datagram; False if it came before."""
        number = rtp.unwrap(packet.sequence, max(self._highest, 0), 16)
        jump = number - self._highest
        is_around = jump <= 0 and now - self._heard > _OUTAGE
        is_far = self._first >= 0 and (is_around or abs(jump) > _WINDOW)
        if is_far and not self._is_confirmed(packet.sequence):
            return True
        self._heard = now
        if self._first < 0 or is_around or not -_WINDOW <= jump <= _MAX_JUMP:
            self._begin(packet.sequence)
        elif jump > 0:
            self._miss(range(max(self._highest + 1, number - _WINDOW), number), now)
            self._highest = number
        elif self._first - _REORDERED <= number < self._first:
            self._miss(range(number + 1, self._first), now)
            self._first = number
        elif (gap := self._absent.pop(number, None)) is None:
            self.duplicates += 1
            return False
        elif gap.requests:
            self.retransmitted += 1
        else:
            self.reordered += 1
        self.received += 1
        self._follow_jitter(packet.timestamp, now)
        return True

    def is_another(self, packet: rtp.RtpPacket, seen: int, old: bool, now: float) -> bool:
        """Whether a datagram of this hash is of a sender that began again: not what came under its
        number; or neither missing nor new, as its number or its `old` time tells."""
        number = rtp.unwrap(packet.sequence, max(self._highest, 0), 16)
        if now - self._heard > _OUTAGE:
            self._seen.clear()
        else:
            old |= self._first - _WINDOW <= number < min(self._first, self._highest - _REORDERED)
        if (known := self._seen.get(packet.sequence)) is not None:
            return known != seen
        self._seen[packet.sequence] = seen
        if len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]
        return old and number not in self._absent

    def to_nack(self, now: float) -> list[int]:
        """Sequence numbers (0-65535) to request now, oldest first; each a few times at most."""
        due = []
        for number, gap in self._absent.items():
            wait = now - (gap.requested if gap.requests else gap.since)
            is_wanted = gap.requests < _NACKS and now - gap.since <= _LAST_NACK
            if is_wanted and wait >= (_NEXT_NACK if gap.requests else _FIRST_NACK):
                gap.requests, gap.requested = gap.requests + 1, now
                due.append(number % (1 << 16))
        return due

    def report(self, source: int, last_report: int, delay: float) -> ReportBlock:
        """Report what came since the last report; `last_report` is LSR, `delay` DLSR in seconds."""
        expected, received = self.expected - self._reported[0], self.received - self._reported[1]
        self._reported = self.expected, self.received
        lost = max(0, expected - received)
        fraction = min(255, 256 * lost // expected) if expected > 0 else 0
        return ReportBlock(
            source=source,
            fraction_lost=fraction,
            lost=min(self.lost, (1 << 23) - 1),
            highest=max(self._highest, 0) % (1 << 32),
            jitter=int(self._jitter) % (1 << 32),
            last_report=last_report,
            delay=min(int(65536 * delay), (1 << 32) - 1),
        )

    def _is_confirmed(self, sequence: int) -> bool:
        """Whether a far number follows the last one: a single forgery moves nothing (A.1)."""
        expected, self._follower = self._follower, (sequence + 1) % (1 << 16)
        return sequence == expected

    def _miss(self, numbers: range, now: float) -> None:
        self._absent.update((number, _Absent(now)) for number in numbers)
        while len(self._absent) > _WINDOW:
            del self._absent[next(iter(self._absent))]

    def _begin(self, sequence: int) -> None:
        self._first = self._highest = sequence + (1 << 16)  # leaves room for earlier ones
        self.received = 0
        self._reported = 0, 0
        self._absent.clear()

    def _follow_jitter(self, timestamp: int, now: float) -> None:
        transit = now * rtp.CLOCK_RATE - timestamp
        if self._transit is not None:
            change = abs(transit - self._transit)
            if change < rtp.CLOCK_RATE * 60:  # else the timestamps have wrapped around
                self._jitter += (change - self._jitter) / 16
        self._transit = transit


UNDER_WAY = 2.0
"""Seconds for which what nothing has followed may be under way: a link may take one for a piece."""
_LATE_SECONDS, _LATE_PACKETS = 2.0, 16
"""How long, and how many, packets given up are still taken: they mend the rest of their group."""
_BEHIND, _AHEAD = 64, 256
"""How far before and after the next picture's number a unit's number is believed."""
_FAR_TICKS, _OLD_TICKS = 600 * rtp.CLOCK_RATE, 4 * rtp.CLOCK_RATE
"""How far a unit's time may be from the last picture's, and how far back before it is old."""


@typed
@dataclass(frozen=True)
class ReorderLimits:
    """Bounds of the jitter buffer. Beyond one, the oldest missing packet is given up."""

    seconds: float = 0.25
    """How long packets wait for a missing one."""
    packets: int = 64
    """Picture packets that wait."""
    bytes: int = 8 << 20
    """Their memory."""


@dataclass
class Counts:
    """Counts of packets."""

    lost: int = 0
    late: int = 0
    """Packets that came after they were given up."""
    repaired: int = 0
    """Packets completed by parity."""
    repeated: int = 0
    """Packets of which a redundant copy came first."""
    damaged: int = 0
    """Datagrams and packets that are not valid."""


class Depacketizer:
    """Turns datagrams into packets in order, the first one INTRA.

    Picture packets get their number, group and pts, and a duration if the packet before them came
    too; others get the pts of the picture before them. A gap in the numbers is a loss; a packet out
    of order was given up and came late. After an outage, packets go on at the next INTRA packet.
    Invalid bytes are counted and dropped; they raise nothing. A sender that began again, even as
    the same `source`, takes over with its first INTRA packet: `header`, None before the first, is
    another object then, and needs a new decoder; its times are its own, and may begin at 0 again.

    `limits` bound the stream: the default admits all that gsvc encodes; for untrusted senders give
    `Limits.restrictive()`, here and to the decoder, as `VideoReceiver` does.
    """

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, reorder: ReorderLimits | None = None
    ) -> None:
        self.header: Header | None = None
        self.source: int | None = None  # its SSRC
        self._gone: int | None = None  # that of the source before it
        self._other: Depacketizer | None = None  # of another sender, since which nothing came
        self._is_other = False  # whether it is that: it has no other
        self.tracker = SequenceTracker()
        self.counts = Counts()
        self._limits, self._reorder = limits, reorder or ReorderLimits()
        self._stream_header = b""
        self._slots: dict[int, PendingPacket] = {}
        self._others: dict[int, list[tuple[Packet, int]]] = {}  # with their RTP timestamps
        self._head = -1  # number of the next picture packet; -1 before the first INTRA packet
        self._clock = 0
        self._far: dict[int, PendingPacket] = {}  # the INTRA packet, in pieces, to join again at
        self._last: tuple[int, int] | None = None  # number and pts of the last packet in order
        self._late: dict[int, PendingPacket] = {}  # given up, but of the current group
        self._is_broken = self._has_end = False

    @property
    def depth(self) -> int:
        """Number of picture packets that wait."""
        return len(self._slots)

    @property
    def needs_key(self) -> bool:
        """Whether no picture can be decoded before an INTRA packet of which nothing has come."""
        comes = len(self._slots) == 1 and not any(slot.packet for slot in self._slots.values())
        begins = self._other is not None and self._other.needs_key
        return self._is_broken or begins or (self._head < 0 and not comes)

    def push(self, datagram: bytes, now: float) -> list[Packet]:
        """Take a datagram; gives the packets that are ready. `now` is in monotonic seconds."""
        try:
            packet = rtp.RtpPacket.from_bytes(datagram)
            if self.source is None:
                self.source = packet.ssrc
            old = self._clock - rtp.unwrap(packet.timestamp, self._clock, 32) > _OLD_TICKS
            is_own = packet.ssrc == self.source
            again = is_own and self.tracker.is_another(packet, hash(datagram), old, now)
            if not is_own or (again and not self._is_other):
                return self._push_other(packet.ssrc, datagram, now)
            self._other = None
            if self.tracker.arrived(packet, now):
                for unit in rtp.read_units(packet.payload):
                    self._take(unit, packet.timestamp, now)
        except BitstreamError:
            self.counts.damaged += 1
        return self.poll(now)

    def _push_other(self, source: int, datagram: bytes, now: float) -> list[Packet]:
        if source == self._gone:
            return []
        if self._other is None or self._other.source != source:
            self._other = Depacketizer(self._limits, self._reorder)
            self._other._is_other = True
        if packets := self._other.push(datagram, now):
            gone = self._gone if source == self.source else self.source
            vars(self).update(vars(self._other), _gone=gone, _is_other=False)
        return packets

    def poll(self, now: float) -> list[Packet]:
        """Give up what was waited for long enough; gives the packets that are ready."""
        if self._head < 0:
            for number in sorted(self._slots):  # what waits too long for the first INTRA packet
                if self._is_full or now >= self._deadline(self._slots[number]):
                    del self._slots[number]
            return []
        packets = [*self._late_ones(now), *self._others_due()]
        while self._slots:
            slot = self._slots.get(self._head)
            if slot and slot.packet:
                packets.append(self._next(slot, slot.packet))
            elif self._is_full or now >= self._deadline(slot):
                self._give_up(now)
            else:
                break
            packets += self._others_due()
        return packets

    def to_nack(self, now: float) -> list[int]:
        """Sequence numbers of datagrams to request again, if pictures wait for any."""
        return self.tracker.to_nack(now) if self._slots or self._late or self._far else []

    def _take(self, unit: rtp.PayloadUnit, timestamp: int, now: float) -> None:
        number = self._number(unit)
        time = rtp.unwrap((timestamp - unit.age) % (1 << 32), self._clock, 32)
        is_known = self._head >= 0 and not (unit.is_copy and number < self._head)
        # Which numbers and times are near; after a pause, a copy of what came before is far.
        if is_known and (number > self._head + _AHEAD or abs(time - self._clock) > _FAR_TICKS):
            self._take_far(number, time, unit, now)
        elif unit.kind == rtp.UnitKind.OTHER:
            self._take_other(number, unit.data, timestamp)
            if 0 <= self._head < number:  # the picture before it was sent: it is waited for
                self._slots.setdefault(number - 1, PendingPacket(now))
        elif number >= self._head:
            self._slots.setdefault(number, PendingPacket(now))
            self._take_picture(self._slots, number, time, unit, now)
        elif number in self._late:
            self._take_picture(self._late, number, time, unit, now)

    def _number(self, unit: rtp.PayloadUnit) -> int:
        """The unit's number, unwrapped: if it is not just behind the next picture, it is ahead."""
        if self._head < 0:
            return rtp.unwrap(unit.number, max(self._slots, default=0), 16)
        return self._head + (unit.number - self._head + _BEHIND) % (1 << 16) - _BEHIND

    def _take_far(self, number: int, time: int, unit: rtp.PayloadUnit, now: float) -> None:
        """Take a forgery or the end of an outage: only a whole INTRA packet proves the latter."""
        self._is_broken = True
        if unit.kind == rtp.UnitKind.OTHER or unit.back:
            raise BitstreamError("a packet is far from those before it: begin at an INTRA packet")
        if number < self._head:
            number += 1 << 16  # numbers never go back
        if number not in self._far or self._far[number].size > self._reorder.bytes:
            self._far = {number: PendingPacket(now)}
        self._take_picture(self._far, number, time, unit, now)

    def _take_picture(
        self,
        slots: dict[int, PendingPacket],
        number: int,
        time: int,
        unit: rtp.PayloadUnit,
        now: float,
    ) -> None:
        slot = slots[number]
        if slot.packet:
            return
        slot.since, slot.group, slot.timestamp = now, number - unit.back, time
        try:
            if unit.piece is None:
                self._complete(number, slot, unit.data)
                self.counts.repeated += unit.is_copy
            elif (data := slot.add(unit.piece, unit.data)) is not None:
                self._complete(number, slot, data)
                self.counts.repaired += unit.piece.stripes > 0
        except BitstreamError:
            slots[number] = PendingPacket(now)
            raise

    def _take_other(self, number: int, data: bytes, timestamp: int) -> None:
        _, packet = rtp.read_packet_data(data, self._limits)
        if packet.is_picture:
            raise BitstreamError("a picture packet comes in a unit of kind OTHER: it is damaged")
        if packet.type == PacketType.END:
            if self._has_end:  # the sender repeats it
                return
            self._has_end = True
        if sum(map(len, self._others.values())) < self._reorder.packets:
            self._others.setdefault(number, []).append((packet, timestamp))

    def _complete(self, number: int, slot: PendingPacket, data: bytes) -> None:
        stream_header, packet = rtp.read_packet_data(data, self._limits)
        if not packet.is_picture or packet.is_intra != (slot.group == number) or slot.group < 0:
            raise BitstreamError("a packet does not fit its number and group: it is damaged")
        if stream_header and self.header is None:
            self.header = Header.from_bytes(stream_header, self._limits)
            self._stream_header = stream_header
        elif stream_header not in (None, self._stream_header):
            raise BitstreamError("the stream's header changes: it is damaged")
        slot.complete(replace(packet, number=number, group=slot.group), len(data))
        if packet.is_intra and (self._head < 0 or slot is self._far.get(number)):
            self._join(number, slot)

    def _join(self, number: int, slot: PendingPacket) -> None:
        window = range(number, number + _AHEAD + 1)
        self._slots = {n: waiting for n, waiting in self._slots.items() if n in window}
        self._others = {n: waiting for n, waiting in self._others.items() if n in window}
        self._slots[number], self._late, self._far = slot, {}, {}
        self._head, self._clock = number, slot.timestamp

    def _given(self, slot: PendingPacket, packet: Packet) -> Packet:
        pts, before = self._time(slot.timestamp), self._last
        follows = before and before[0] + 1 == packet.number
        return replace(packet, pts=pts, duration=pts - before[1] if follows and before else None)

    def _next(self, slot: PendingPacket, packet: Packet) -> Packet:
        """The picture packet at the head; the head moves on."""
        del self._slots[self._head]
        self._clock = slot.timestamp
        packet = self._given(slot, packet)
        if packet.is_intra:
            self._late, self._is_broken = {}, False
        self._last = self._head, packet.pts or 0
        self._head += 1
        return packet

    def _late_ones(self, now: float) -> Iterator[Packet]:
        """Packets that came after they were given up."""
        for number, slot in list(self._late.items()):
            if slot.packet:
                del self._late[number]
                self.counts.late += 1
                self._is_broken = bool(self._late)
                yield self._given(slot, slot.packet)
            elif (
                now - slot.since > _LATE_SECONDS or len(self._late) > _LATE_PACKETS or self._is_full
            ):
                del self._late[number]

    def _time(self, timestamp: int) -> int:
        assert self.header is not None  # it came with the first INTRA packet
        return rtp.presentation_time(timestamp, self.header.format.time_base)

    def _others_due(self) -> Iterator[Packet]:
        for number in [n for n in self._others if n <= self._head]:
            for packet, timestamp in self._others.pop(number):
                yield replace(packet, pts=self._time(rtp.unwrap(timestamp, self._clock, 32)))

    def _deadline(self, head: PendingPacket | None) -> float:
        since = head.since if head else min(slot.since for slot in self._slots.values())
        is_alone = head is not None and len(self._slots) == 1
        return since + max(self._reorder.seconds, UNDER_WAY * is_alone)

    @property
    def _is_full(self) -> bool:
        held = sum(slot.size for slot in (*self._slots.values(), *self._late.values()))
        return len(self._slots) > self._reorder.packets or held > self._reorder.bytes

    def _give_up(self, now: float) -> None:
        """Move the head to the next packet of which anything came."""
        after = self._head + 1 if self._head in self._slots else min(self._slots)
        for number in range(max(self._head, after - _LATE_PACKETS), after):
            self._late[number] = self._slots.pop(number, PendingPacket(now))
        self.counts.lost += after - self._head
        self._head, self._is_broken = after, True
