"""RTP datagrams to packets in order: a jitter buffer in bounded memory and time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.network.reassembly import PendingPacket
from gsvc.codec.network.rtp import CLOCK_RATE, RtpPacket, presentation_time, unwrap
from gsvc.codec.network.rtp_payload import Kind, Unit, read_packet_data, read_units
from gsvc.codec.network.sequence_tracker import SequenceTracker
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.typed import typed

_LATE_SECONDS, _LATE_PACKETS = 2.0, 16
"""How long, and how many, packets given up are still taken: they mend the rest of their group."""
_BEHIND, _AHEAD = 64, 256
"""How far before and after the next picture's number a unit's number is believed."""
_FAR_TICKS = 600 * CLOCK_RATE
"""How far a unit's time may be from the last picture's: ten minutes."""


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
    """Picture packets given up."""
    late: int = 0
    """Packets that came after they were given up."""
    repaired: int = 0
    """Packets completed by parity."""
    repeated: int = 0
    """Packets of which a redundant copy came first."""
    damaged: int = 0
    """Datagrams and packets that are not valid."""


class Depacketizer:
    """Turns the datagrams of one source into packets in order, the first one INTRA.

    Picture packets get their number, group and pts, and a duration if the packet before them came
    too; others get the pts of the picture before them. A gap in the numbers is a loss; a packet out
    of order was given up and came late. After an outage of any length, packets go on at the next
    INTRA packet. Invalid bytes are counted and dropped; they raise nothing.

    `header` is the stream's, None before the first packet. `limits` bound the stream: the default
    admits all that gsvc encodes; for untrusted senders give `Limits.restrictive()`, here and to the
    decoder, as `VideoReceiver` does.
    """

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, reorder: ReorderLimits | None = None
    ) -> None:
        self.header: Header | None = None
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
        """Whether no picture can be decoded before the next INTRA packet."""
        return self._head < 0 or self._is_broken

    def push(self, datagram: bytes, now: float) -> list[Packet]:
        """Take a datagram; gives the packets that are ready. `now` is in monotonic seconds."""
        try:
            rtp = RtpPacket.from_bytes(datagram)
            if self.tracker.arrived(rtp, now):
                for unit in read_units(rtp.payload):
                    self._take(unit, rtp.timestamp, now)
        except BitstreamError:
            self.counts.damaged += 1
        return self.poll(now)

    def poll(self, now: float) -> list[Packet]:
        """Give up what was waited for long enough; gives the packets that are ready."""
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

    def to_nack(self, now: float) -> list[int]:
        """Sequence numbers of datagrams to request again, if pictures wait for any."""
        return self.tracker.to_nack(now) if self._slots or self._late or self._far else []

    def _take(self, unit: Unit, timestamp: int, now: float) -> None:
        number = self._number(unit)
        time = unwrap((timestamp - unit.age) % (1 << 32), self._clock, 32)
        is_known = self._head >= 0  # which numbers and times are near
        if is_known and (number > self._head + _AHEAD or abs(time - self._clock) > _FAR_TICKS):
            self._take_far(number, time, unit, now)
        elif unit.kind == Kind.OTHER:
            self._take_other(number, unit.data, timestamp)
            if 0 <= self._head < number:  # the picture before it was sent: it is waited for
                self._slots.setdefault(number - 1, PendingPacket(now))
        elif number >= self._head:
            self._slots.setdefault(number, PendingPacket(now))
            self._take_picture(self._slots, number, time, unit, now)
        elif number in self._late:
            self._take_picture(self._late, number, time, unit, now)

    def _number(self, unit: Unit) -> int:
        """The unit's number, unwrapped: if it is not just behind the next picture, it is ahead."""
        if self._head < 0:
            return unwrap(unit.number, max(self._slots, default=0), 16)
        return self._head + (unit.number - self._head + _BEHIND) % (1 << 16) - _BEHIND

    def _take_far(self, number: int, time: int, unit: Unit, now: float) -> None:
        """Take a forgery or the end of an outage: only a whole INTRA packet proves the latter."""
        self._is_broken = True
        if unit.kind == Kind.OTHER or unit.back:
            raise BitstreamError("a packet is far from those before it: begin at an INTRA packet")
        if number < self._head:
            number += 1 << 16  # numbers never go back
        if number not in self._far or self._far[number].size > self._reorder.bytes:
            self._far = {number: PendingPacket(now)}
        self._take_picture(self._far, number, time, unit, now)

    def _take_picture(
        self, slots: dict[int, PendingPacket], number: int, time: int, unit: Unit, now: float
    ) -> None:
        slot = slots[number]
        if slot.packet:
            return
        slot.since, slot.group, slot.timestamp = now, number - unit.back, time
        try:
            self._fill(number, slot, unit)
        except BitstreamError:
            slots[number] = PendingPacket(now)
            raise

    def _fill(self, number: int, slot: PendingPacket, unit: Unit) -> None:
        """Put the unit into its slot, and complete the packet if that is all of it."""
        if unit.piece is None:
            self._complete(number, slot, unit.data)
            self.counts.repeated += unit.is_copy
        elif (data := slot.add(unit.piece, unit.data)) is not None:
            self._complete(number, slot, data)
            self.counts.repaired += unit.piece.stripes > 0

    def _take_other(self, number: int, data: bytes, timestamp: int) -> None:
        _, packet = read_packet_data(data, self._limits)
        if packet.is_picture:
            raise BitstreamError("a picture packet comes in a unit of kind OTHER: it is damaged")
        if packet.type == PacketType.END:
            if self._has_end:  # the sender repeats it
                return
            self._has_end = True
        if sum(map(len, self._others.values())) < self._reorder.packets:
            self._others.setdefault(number, []).append((packet, timestamp))

    def _complete(self, number: int, slot: PendingPacket, data: bytes) -> None:
        stream_header, packet = read_packet_data(data, self._limits)
        if not packet.is_picture or packet.is_key != (slot.group == number) or slot.group < 0:
            raise BitstreamError("a packet does not fit its number and group: it is damaged")
        if stream_header:
            self._check_header(stream_header)
        slot.complete(replace(packet, number=number, group=slot.group), len(data))
        if packet.is_key and (self._head < 0 or slot is self._far.get(number)):
            self._join(number, slot)

    def _join(self, number: int, slot: PendingPacket) -> None:
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

    def _given(self, slot: PendingPacket, packet: Packet) -> Packet:
        """The packet with its times."""
        pts = self._time(slot.timestamp)
        number, before = packet.number, self._last
        follows = before is not None and before[0] + 1 == number
        return replace(packet, pts=pts, duration=pts - before[1] if follows and before else None)

    def _next(self, slot: PendingPacket, packet: Packet) -> Packet:
        """The picture packet at the head; the head moves on."""
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
        assert self.header is not None  # it came with the first INTRA packet
        return presentation_time(timestamp, self.header.format.time_base)

    def _others_due(self) -> Iterator[Packet]:
        for number in [n for n in self._others if n <= self._head]:
            for packet, timestamp in self._others.pop(number):
                yield replace(packet, pts=self._time(unwrap(timestamp, self._clock, 32)))

    def _deadline(self, head: PendingPacket | None) -> float:
        since = head.since if head else min(slot.since for slot in self._slots.values())
        return since + self._reorder.seconds

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

    def _drop_old(self, now: float) -> None:
        """Drop what waits too long for the first INTRA packet."""
        for number in sorted(self._slots):
            if self._is_full or now >= self._slots[number].since + self._reorder.seconds:
                del self._slots[number]
