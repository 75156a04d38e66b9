"""RTP datagrams to packets in order: reordering, reassembly and repair, in bounded memory and time."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.network.parity import repaired
from gsvc.codec.network.rtp import CLOCK_RATE, RtpPacket, presentation_time, unwrap
from gsvc.codec.network.rtp_payload import Kind, Piece, Unit, read_packet_data, read_units
from gsvc.codec.network.sequence_tracker import SequenceTracker
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, PacketType

_PIECE_COST = 128
"""Bytes that a piece takes beside its data: what is bounded is memory."""
_LATE_SECONDS, _LATE_PACKETS = 2.0, 16
"""How long packets that were given up may still come, and how many: they put the rest of their group right."""
_BEHIND, _AHEAD = 64, 256
"""Numbers before and after that of the picture due next that are believed of any unit."""
_FAR_TICKS = 600 * CLOCK_RATE
"""How far from the picture before it the time of any unit may be: ten minutes."""


@dataclass(frozen=True)
class ReorderLimits:
    """What may wait for a packet that is missing: `seconds`, after which it is given up; picture `packets` and their
    `bytes`, beyond which the oldest is."""

    seconds: float = 0.25
    packets: int = 64
    bytes: int = 8 << 20


@dataclass
class Counts:
    """Picture packets given up as `lost`, of which some came `late`; those `repaired` by parity, and `repeated` (a later
    copy came first); datagrams and packets that are `damaged`."""

    lost: int = 0
    late: int = 0
    repaired: int = 0
    repeated: int = 0
    damaged: int = 0


@dataclass
class _Slot:
    """A picture packet that waits: complete, or in pieces, of which the last came at `since`."""

    since: float
    timestamp: int = 0
    group: int = 0
    packet: Packet | None = None
    count: int = 0
    fragments: dict[int, bytes] = field(default_factory=dict)
    parities: dict[int, bytes] = field(default_factory=dict)
    stripes: int = 0
    size: int = 0

    def add(self, piece: Piece, data: bytes) -> bool:
        """Take a piece, and repair what it allows to; True if that completes the packet."""
        self.count = self.count or piece.count
        self.stripes = self.stripes or piece.stripes
        if piece.count != self.count or piece.stripes not in (0, self.stripes):
            raise BitstreamError("pieces of a packet do not fit together: one is damaged")
        kept = self.parities if piece.stripes else self.fragments
        if piece.index not in kept:
            kept[piece.index] = data
            self.size += len(data) + _PIECE_COST
        if self.stripes:
            self._repair(piece.index % self.stripes)
        return len(self.fragments) == self.count

    def _repair(self, stripe: int) -> None:
        check = self.parities.get(stripe)
        if check is None:
            return
        found = repaired(self.fragments, self.count, stripe, self.stripes, check)
        if found:
            self.fragments[found[0]] = found[1]
            self.size += len(found[1]) + _PIECE_COST

    def joined(self) -> bytes:
        return b"".join(self.fragments[index] for index in range(self.count))


class Depacketizer:
    """Receives one source: `push` datagrams as they arrive, packets come back in order, the first one INTRA.

    `header` is the stream's, known from the first packet on. Picture packets have their number, group, pts and, if the
    one before came too, duration; others the pts of the picture before. A gap in the numbers is a loss; a packet out of
    order was given up before. What is not valid is counted and otherwise ignored: no bytes make this raise.

    `limits`: what the stream may ask for. The default permits all that gsvc encodes; give `Limits.restrictive()`, as
    `VideoReceiver` does, to this and to the decoder behind it where nobody vouches for the sender.

    After an outage of any length it joins again, at the next INTRA packet; nothing less moves it far.
    """

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, reorder: ReorderLimits | None = None
    ) -> None:
        self.header: Header | None = None
        self.reception = SequenceTracker()
        self.counts = Counts()
        self._limits, self._reorder = limits, reorder or ReorderLimits()
        self._stream_header = b""
        self._slots: dict[int, _Slot] = {}
        self._others: dict[int, list[tuple[Packet, int]]] = {}  # and their RTP times
        self._head = -1  # number of the next picture to give; -1 before the first INTRA packet
        self._clock = 0
        self._far: dict[int, _Slot] = {}  # the INTRA packet, not yet whole, at which to join again
        self._last: tuple[int, int] | None = None  # number and pts of the last one given in order
        self._late: dict[int, _Slot] = {}  # of the group, given up
        self._is_broken = self._has_end = False

    @property
    def depth(self) -> int:
        """Picture packets that wait."""
        return len(self._slots)

    @property
    def needs_key(self) -> bool:
        """Whether pictures cannot be decoded before the next INTRA packet."""
        return self._head < 0 or self._is_broken

    def push(self, datagram: bytes, now: float) -> list[Packet]:
        """Take a datagram at time `now` (seconds, steady); the packets that can be given now."""
        try:
            rtp = RtpPacket.from_bytes(datagram)
            if self.reception.arrived(rtp, now):
                for unit in read_units(rtp.payload):
                    self._take(unit, rtp.timestamp, now)
        except BitstreamError:
            self.counts.damaged += 1
        return self.poll(now)

    def poll(self, now: float) -> list[Packet]:
        """The packets that can be given now, those given up that were waited for long enough."""
        if self._head < 0:
            self._drop_old(now)
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

    def to_ask_for(self, now: float) -> list[int]:
        """Sequence numbers of datagrams to ask for again, if pictures wait for any."""
        return self.reception.to_ask_for(now) if self._slots or self._late or self._far else []

    def _take(self, unit: Unit, timestamp: int, now: float) -> None:
        number = self._number(unit)
        time = unwrap((timestamp - unit.age) % (1 << 32), self._clock, 32)
        if self._is_far(number, time):
            self._take_far(number, time, unit, now)
        elif unit.kind == Kind.OTHER:
            self._take_other(number, unit.data, timestamp)
            if 0 <= self._head < number:  # the picture before it was sent: it is waited for
                self._slots.setdefault(number - 1, _Slot(now))
        elif number >= self._head:
            self._slots.setdefault(number, _Slot(now))
            self._take_picture(self._slots, number, time, unit, now)
        elif number in self._late:
            self._take_picture(self._late, number, time, unit, now)

    def _number(self, unit: Unit) -> int:
        """The unit's number, not modulo 2^16: what is not just behind lies ahead."""
        if self._head < 0:
            return unwrap(unit.number, max(self._slots, default=0), 16)
        return self._head + (unit.number - self._head + _BEHIND) % (1 << 16) - _BEHIND

    def _is_far(self, number: int, time: int) -> bool:
        if self._head < 0:
            return False
        return number > self._head + _AHEAD or abs(time - self._clock) > _FAR_TICKS

    def _take_far(self, number: int, time: int, unit: Unit, now: float) -> None:
        """A forgery, or the end of an outage: a whole INTRA packet tells, so one is wanted."""
        self._is_broken = True
        if unit.kind == Kind.OTHER or unit.back:
            raise BitstreamError("a packet is far from those before it: begin at an INTRA packet")
        if number < self._head:
            number += 1 << 16  # numbers given never go back
        if number not in self._far or self._far[number].size > self._reorder.bytes:
            self._far = {number: _Slot(now)}
        self._take_picture(self._far, number, time, unit, now)

    def _take_picture(
        self, slots: dict[int, _Slot], number: int, time: int, unit: Unit, now: float
    ) -> None:
        slot = slots[number]
        if slot.packet:
            return
        slot.since, slot.group, slot.timestamp = now, number - unit.back, time
        try:
            self._fill(number, slot, unit)
        except BitstreamError:
            slots[number] = _Slot(now)
            raise

    def _fill(self, number: int, slot: _Slot, unit: Unit) -> None:
        """Put the unit into its slot, and the packet together when that completes it."""
        if unit.piece is None:
            self._complete(number, slot, unit.data)
            self.counts.repeated += unit.is_copy
        elif slot.add(unit.piece, unit.data):
            self._complete(number, slot, slot.joined())
            self.counts.repaired += unit.piece.stripes > 0

    def _take_other(self, number: int, data: bytes, timestamp: int) -> None:
        _, packet = read_packet_data(data, self._limits)
        if packet.is_picture:
            raise BitstreamError("a picture packet comes as another: the datagram is damaged")
        if packet.type == PacketType.END:  # it is sent several times
            if self._has_end:
                return
            self._has_end = True
        if sum(map(len, self._others.values())) < self._reorder.packets:
            self._others.setdefault(number, []).append((packet, timestamp))

    def _complete(self, number: int, slot: _Slot, data: bytes) -> None:
        stream_header, packet = read_packet_data(data, self._limits)
        if not packet.is_picture or packet.is_key != (slot.group == number) or slot.group < 0:
            raise BitstreamError("a packet does not fit its number and group: it is damaged")
        if stream_header:
            self._check_header(stream_header)
        slot.packet = replace(packet, number=number, group=slot.group)
        slot.fragments, slot.parities, slot.size = {}, {}, len(data) + _PIECE_COST
        if packet.is_key and (self._head < 0 or slot is self._far.get(number)):
            self._join(number, slot)

    def _join(self, number: int, slot: _Slot) -> None:
        """Begin at this INTRA packet."""
        window = range(number, number + _AHEAD + 1)
        self._slots = {n: waiting for n, waiting in self._slots.items() if n in window}
        self._others = {n: waiting for n, waiting in self._others.items() if n in window}
        self._slots[number] = slot
        self._late, self._far = {}, {}
        self._head, self._clock = number, slot.timestamp

    def _check_header(self, stream_header: bytes) -> None:
        if self.header is None:
            self.header = Header.from_bytes(stream_header, self._limits)
            self._stream_header = stream_header
        elif stream_header != self._stream_header:
            raise BitstreamError("the stream's header changes: it is damaged")

    def _given(self, slot: _Slot, packet: Packet) -> Packet:
        """The packet with its times, to be given now."""
        pts = self._time(slot.timestamp)
        number, before = packet.number, self._last
        follows = before is not None and before[0] + 1 == number
        return replace(packet, pts=pts, duration=pts - before[1] if follows and before else None)

    def _next(self, slot: _Slot, packet: Packet) -> Packet:
        """The picture packet at the head, given."""
        del self._slots[self._head]
        self._clock = slot.timestamp
        packet = self._given(slot, packet)
        if packet.is_key:
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
        assert self.header is not None  # the first packet, an INTRA, brought it
        return presentation_time(timestamp, self.header.format.time_base)

    def _others_due(self) -> Iterator[Packet]:
        for number in [n for n in self._others if n <= self._head]:
            for packet, timestamp in self._others.pop(number):
                yield replace(packet, pts=self._time(unwrap(timestamp, self._clock, 32)))

    def _deadline(self, head: _Slot | None) -> float:
        since = head.since if head else min(slot.since for slot in self._slots.values())
        return since + self._reorder.seconds

    @property
    def _is_full(self) -> bool:
        held = sum(slot.size for slot in (*self._slots.values(), *self._late.values()))
        return len(self._slots) > self._reorder.packets or held > self._reorder.bytes

    def _give_up(self, now: float) -> None:
        """Go on from the next packet of which there is anything."""
        after = self._head + 1 if self._head in self._slots else min(self._slots)
        for number in range(max(self._head, after - _LATE_PACKETS), after):
            self._late[number] = self._slots.pop(number, _Slot(now))
        self.counts.lost += after - self._head
        self._head, self._is_broken = after, True

    def _drop_old(self, now: float) -> None:
        """Before the first INTRA packet, nothing waits for long."""
        for number in sorted(self._slots):
            if self._is_full or now >= self._slots[number].since + self._reorder.seconds:
                del self._slots[number]
