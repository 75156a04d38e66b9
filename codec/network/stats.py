"""What a sender or a receiver can tell of itself at any time: frozen snapshots."""

from collections import deque
from dataclasses import dataclass, field
from math import ceil

from gsvc.codec.errors import BitstreamError
from gsvc.codec.stream.group import GroupReader
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.ledger import (
    Ledger,
    audio_ledger,
    other_ledger,
    picture_ledger,
    total,
    unparsed_ledger,
)
from gsvc.codec.stream.packet import Packet, PacketType

IP_UDP_BYTES = 28
"""Headers of IPv4 and UDP; with RTP's, 40 bytes a datagram."""


@dataclass(frozen=True)
class Latency:
    """Percentiles in seconds of the last `count` measurements; None without any."""

    count: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class SenderStats:
    """A sender so far.

    `frames` captured, of which `dropped` because the encoder was busy; `packets` sent; `queue`: frames that wait;
    `datagrams` and `bytes` (with RTP headers), `again`: datagrams repeated on request; `bitrate`: bit/s since the last
    snapshot, IP and UDP headers included; `bits` of packets by layer, as `gsvc info` counts them; `keys_asked`: groups
    begun on request; `fraction_lost` (0-1) and `round_trip` (s) as the receiver reports them, None without a report;
    `waiting`: from a frame's capture to the start of its encoding; `encoding`: of the calls that gave packets.
    `receivers`: how many are connected over TCP or WebSocket; `refused`: those cut off because they were too slow.
    """

    seconds: float
    frames: int
    dropped: int
    packets: int
    queue: int
    datagrams: int
    bytes: int
    again: int
    bitrate: float
    bits: Ledger = field(repr=False)
    keys_asked: int
    fraction_lost: float | None
    round_trip: float | None
    receivers: int
    refused: int
    waiting: Latency
    encoding: Latency


@dataclass(frozen=True)
class ReceiverStats:
    """A receiver so far.

    `frames` shown, of which `concealed`; `packets` decoded; `streams`: how often a sender began; `dropped`: packets
    that came faster than they could be decoded; `queue`: packets that wait for the decoder, `reordering`: those that
    wait for others. Datagrams: `datagrams`, `bytes` (with RTP headers), `lost` (never came), `duplicates`,
    `reordered`, `retransmitted` (came when asked for), `damaged`. Packets: `packets_lost`; `repaired` by parity,
    `repeated`: only a copy came. `bitrate`: bit/s since the last snapshot, IP and UDP headers included; `bits` of
    packets by layer. `latency`: capture of a frame to when it was handed out, by the sender's and this clock; None over
    TCP and WebSocket; `decoding`: of one packet.
    """

    seconds: float
    frames: int
    concealed: int
    packets: int
    streams: int
    dropped: int
    queue: int
    reordering: int
    datagrams: int
    bytes: int
    lost: int
    duplicates: int
    reordered: int
    retransmitted: int
    damaged: int
    packets_lost: int
    repaired: int
    repeated: int
    bitrate: float
    bits: Ledger = field(repr=False)
    latency: Latency
    decoding: Latency


class Durations:
    """Durations of late: the last 4096, in seconds."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=4096)

    def add(self, seconds: float) -> None:
        """Take one."""
        self._values.append(seconds)

    def summary(self) -> Latency:
        """Their percentiles, each the smallest value that so many do not exceed."""
        ordered = sorted(self._values)
        if not ordered:
            return Latency(0)
        ranks = (max(0, ceil(share * len(ordered)) - 1) for share in (0.5, 0.95, 0.99))
        return Latency(len(ordered), *(round(ordered[rank], 6) for rank in ranks))


class LayerMeter:
    """Counts the bits of packets by layer."""

    def __init__(self, header: Header) -> None:
        self.bits = total([])
        self._parser = GroupReader(header)
        self._next: int | None = 0

    def add(self, packet: Packet) -> None:
        """Take the next packet. What cannot be parsed after a loss counts as key picture."""
        if packet.is_picture:
            if packet.number != self._next:
                self._parser.end_group()
            self._next = None if packet.number is None else packet.number + 1
        self.bits = total([self.bits, self._ledger(packet)])

    def _ledger(self, packet: Packet) -> Ledger:
        size = len(packet.to_bytes())
        if packet.type == PacketType.AUDIO:
            return audio_ledger(size, len(packet.payload))
        if not packet.is_picture:
            return other_ledger(size)
        try:
            parsed = self._parser.read(packet)
        except BitstreamError:
            self._parser.end_group()
            return unparsed_ledger(size, len(packet.payload))
        return picture_ledger(size, parsed)
