"""Statistics of a sender and a receiver: frozen snapshots, and the meters behind them."""

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from math import ceil

from gsvc.codec.bitstream import container, errors, group, stream_info
from gsvc.codec.bitstream.header import Header

IP_UDP_BYTES = 28  # headers in a datagram
_TCP_IP_BYTES, _SEGMENT = 52, 1400  # headers with time stamps; bytes of a segment at most


def tcp_bits(size: float, packets: int) -> float:
    """On the wire, headers included, of so many packets of `size` bytes in all."""
    return 8 * (size + _TCP_IP_BYTES * (packets + size // _SEGMENT))


def wire_bits(datagram: bytes) -> int:
    """Of a datagram, with the headers of IPv4 and UDP."""
    return 8 * (len(datagram) + IP_UDP_BYTES)


def faster(preset: str) -> str:
    """What loses fewer frames to an encoder of this preset that is too slow."""
    told = "" if preset == "fast" else 'preset="fast", '
    return f"take {told}a lower fps or size"


@dataclass(frozen=True)
class Latency:
    """Percentiles in seconds of the last `count` measurements; None without any."""

    count: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


def picture_bits(bits: stream_info.Ledger) -> int:
    """Those of all packets but those of sound."""
    return sum(bits.values()) - bits["audio"]


@dataclass(frozen=True)
class SenderStats:
    """A sender so far, `seconds` since the start. `queue` counts frames that wait for the encoder,
    `again` datagrams sent again on request, `keys_asked` groups begun on request."""

    seconds: float
    frames: int
    sent: int
    """Frames that the packets sent show."""
    dropped: int
    """Frames among them that encoder or network had no time for."""
    packets: int
    queue: int
    datagrams: int
    """Datagrams sent, reports and retransmissions included."""
    bytes: int
    """Bytes of the datagrams, RTP headers included; over TCP and WebSocket, of the packets."""
    again: int
    bitrate: float
    """Bit/s since the last snapshot, IP and UDP headers included."""
    bits: stream_info.Ledger = field(repr=False)
    """Bits of the packets by layer, as `gsvc info` counts them."""
    keys_asked: int
    fraction_lost: float | None
    """Share of datagrams lost (0-1) in the second before the receiver's last report."""
    round_trip: float | None
    """Round-trip time in seconds, measured by that report."""
    receivers: int | None
    """Connections over TCP or WebSocket; None over UDP."""
    refused: int
    """Connections cut off as too slow; over UDP, datagrams that were not sealed with the key."""
    waiting: Latency
    """From a frame's capture to the start of its encoding."""
    encoding: Latency
    """Of the calls that gave packets."""
    target: float | None = None
    """Bits per second of packets that the encoder is to meet; None: its level decides."""
    estimate: float | None = None
    """Bits per second that the network is taken to carry; None where the rate does not follow."""
    left_out: int = 0
    """Frames dropped for want of room in the network; others because the encoder was too slow."""
    lost: int | None = None
    """Datagrams that never came, not even again, as last reported by the receiver."""
    wire_bits: float = 0.0
    """All bits that a receiver was sent, with the headers of IP and UDP or TCP."""
    protection: int = 0
    """Bytes among them of copies and parity, without headers; over UDP alone."""
    playout_delay: Latency = Latency(0)
    """From a frame's capture until its packet has left, for a link; for a display, the p99."""

    @property
    def picture_bits(self) -> int:
        """Bits of all packets but those of sound."""
        return picture_bits(self.bits)


@dataclass(frozen=True)
class ReceiverStats:
    """A receiver so far. `streams` counts senders that began, `queue` packets that wait for the
    decoder; `lost` datagrams have not come, `retransmitted` ones came after a NACK; `packets_lost`
    pictures never came, parity completed `repaired` ones."""

    seconds: float
    """Since something came first; 0 before."""
    frames: int
    concealed: int
    packets: int
    """Packets taken by the decoder."""
    streams: int
    dropped: int
    """Packets that the decoder had no time for."""
    queue: int
    reordering: int
    """Picture packets that wait for missing ones."""
    datagrams: int
    bytes: int
    """Bytes of the datagrams, RTP headers included; over TCP and WebSocket, of the packets."""
    lost: int
    duplicates: int
    reordered: int
    retransmitted: int
    damaged: int
    """Datagrams and packets that are not valid."""
    refused: int
    """Datagrams that were not sealed with the key, came twice or were old."""
    packets_lost: int
    repaired: int
    repeated: int
    """Packets of which only a redundant copy came in time."""
    bitrate: float
    """Bit/s since the last snapshot, IP and UDP headers included."""
    bits: stream_info.Ledger = field(repr=False)
    latency: Latency
    """From a frame's capture by the sender's clock to its handing out by this one; over UDP alone,
    and of `frames`, not of `analysis`."""
    decoding: Latency
    """Of one packet."""
    left_out: int = 0
    """Pictures and intervals that refiner or learned motion had no time for."""
    overdue: int = 0
    """Concealed frames whose packet came too late; others' was lost, dropped or damaged."""
    wire_bits: float = 0.0
    """All bits that came, with the headers of IP and UDP or TCP, as a sender counts them."""
    sound_lost: float = 0.0
    """Seconds of sound that did not come in time: silent in what is shown."""
    playout_delay: Latency = Latency(0)
    """`latency` without the time that packets wait for a slow decoder; for a display, the p99."""


def joined(past: ReceiverStats, now: ReceiverStats) -> ReceiverStats:
    """Of a receiver and the one before it together: their counts; times are the last measured."""
    names = {one.name for one in fields(now) if one.type in (int, float)}
    names -= {"queue", "reordering", "bitrate"}
    summed = {name: getattr(past, name) + getattr(now, name) for name in names}
    timed = now if now.frames else past
    times = {n: getattr(timed, n) for n in ("latency", "playout_delay", "decoding")}
    return replace(now, bits=stream_info.total([past.bits, now.bits]), **times, **summed)


class Durations:
    """The last 4096 durations, in seconds."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=4096)

    def add(self, seconds: float) -> None:
        """Add one."""
        self._values.append(seconds)

    def summary(self) -> Latency:
        """Their percentiles by nearest rank."""
        ordered = sorted(self._values)
        if not ordered:
            return Latency(0)
        ranks = (max(0, ceil(share * len(ordered)) - 1) for share in (0.5, 0.95, 0.99))
        return Latency(len(ordered), *(round(ordered[rank], 6) for rank in ranks))


class RateMeter:
    """Measures the time since it was made, and a bit rate from snapshot to snapshot."""

    def __init__(self) -> None:
        self._began = self._asked = time.monotonic()
        self._bytes = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return round(time.monotonic() - self._began, 3)

    def bitrate(self, size: float) -> float:
        """Bit/s since the last call, `size` being all bytes so far."""
        now = time.monotonic()
        rate = 8 * (size - self._bytes) / max(1e-6, now - self._asked)
        self._bytes, self._asked = size, now
        return round(rate, 1)


class LayerMeter:
    """Counts the bits of a stream's packets by layer."""

    def __init__(self, header: Header) -> None:
        self.bits = stream_info.total([])
        self._parser = group.GroupReader(header)
        self._next: int | None = 0

    def add(self, packet: container.Packet) -> None:
        """Count the next packet. What cannot be parsed after a loss counts as key picture."""
        if packet.is_picture:
            if packet.number != self._next:
                self._parser.lose_track()
            self._next = None if packet.number is None else packet.number + 1
        parsed = None
        with suppress(errors.BitstreamError):
            parsed = self._parser.read(packet) if packet.is_picture else None
        ledger = stream_info.packet_ledger(packet, len(packet.to_bytes()), parsed)
        self.bits = stream_info.total([self.bits, ledger])
