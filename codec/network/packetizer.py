"""Packets to RTP datagrams: aggregation, fragmentation and redundancy."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from gsvc.codec.errors import ConfigError
from gsvc.codec.network.parity import parity
from gsvc.codec.network.rtp import RTP_HEADER_BYTES, RtpPacket, rtp_timestamp
from gsvc.codec.network.rtp_payload import (
    MAX_PIECES,
    MAX_SPAN,
    PIECE_HEAD_BYTES,
    Kind,
    Piece,
    Unit,
)
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.typed import typed

UNIT_HEAD_BYTES = 3 + 3 + 5
"""Bytes of a unit beside its data, at most, of a packet that is no picture."""
LEAST_MTU = 96
"""Bytes of a datagram that has room for a piece of a picture."""


@typed
@dataclass(frozen=True)
class WireSettings:
    """How packets become datagrams. Raises ConfigError for values out of range."""

    mtu: int = 1200
    """Bytes of a datagram at most, with the RTP header, without UDP's and IP's; 96-65507."""
    redundancy: int = 1
    """How many of the last INTER packets the next datagram repeats, as far as they fit; 0-16."""
    parity_span: int = 4
    """Fragments of an INTRA packet that share one parity at most; 0 sends no parity; up to 64."""

    def __post_init__(self) -> None:
        if not LEAST_MTU <= self.mtu <= 65_507:
            raise ConfigError(f"datagrams of {self.mtu} bytes: choose {LEAST_MTU} to 65507")
        if not 0 <= self.redundancy <= 16:
            raise ConfigError(f"redundancy {self.redundancy}: repeat 0 to 16 packets")
        if not 0 <= self.parity_span <= MAX_SPAN:
            raise ConfigError(f"a parity for {self.parity_span} fragments: choose 0 to {MAX_SPAN}")


@dataclass(frozen=True)
class _Timed:
    """A unit and its RTP timestamp."""

    unit: Unit
    timestamp: int


class Packetizer:
    """Makes the datagrams of one stream, source `ssrc`, numbered from `sequence`."""

    def __init__(
        self, header: Header, ssrc: int, settings: WireSettings | None = None, *, sequence: int = 0
    ) -> None:
        self._settings = settings or WireSettings()
        self._header = header.to_bytes()
        self._time_base = header.format.time_base
        self._ssrc, self._sequence = ssrc, sequence
        self._room = self._settings.mtu - RTP_HEADER_BYTES
        self._number = self._timestamp = 0
        self._recent: deque[_Timed] = deque(maxlen=self._settings.redundancy)
        self.protects = True
        """Whether copies and parity are sent, as the settings have them."""

    def packetize(self, packets: Sequence[Packet]) -> list[RtpPacket]:
        """The datagrams of packets that are ready together, in the order in which to send them.

        Raises ConfigError for a picture packet without number, group or pts or with more than
        MAX_PIECES fragments, and for any other packet that does not fit a datagram.
        """
        datagrams: list[RtpPacket] = []
        batch: list[_Timed] = []
        for packet in packets:
            new = self._timed(packet)
            if packet.type == PacketType.AUDIO and self._payload([new]) is not None:
                datagrams.append(self._datagram([new], copies=False))
                continue
            is_small = self._payload([new]) is not None
            if batch and (packet.is_key or self._payload([*batch, new]) is None):
                datagrams.append(self._datagram(batch))
                batch = []
            if is_small and not packet.is_key:
                batch.append(new)
                continue
            if not packet.is_picture:
                raise ConfigError(
                    f"a packet of {len(packet.payload)} bytes that is no picture does not fit a "
                    f"datagram of {self._settings.mtu}: make it smaller"
                )
            *pieces, last = self._pieces(new, protect=packet.is_key and self.protects)
            datagrams += [self._datagram([piece], copies=False) for piece in pieces]
            datagrams.append(self._datagram([last]))
        return [*datagrams, self._datagram(batch)] if batch else datagrams

    def _timed(self, packet: Packet) -> _Timed:
        back = 0
        if packet.is_picture:
            if packet.number is None or packet.group is None or packet.pts is None:
                raise ConfigError("a packet has no number or time: take packets from an Encoder")
            self._number, back = packet.number, packet.number - packet.group
            self._timestamp = rtp_timestamp(packet.pts, self._time_base)
        kind = Kind.PICTURE if packet.is_picture else Kind.OTHER
        data = self._header * packet.is_key + packet.to_bytes()
        unit = Unit(kind, self._number, data, back=back)
        self._number += packet.is_picture
        return _Timed(unit, self._timestamp)

    def _pieces(self, packet: _Timed, *, protect: bool) -> list[_Timed]:
        """Fragments of equal length, then their parities. The parity of one fragment is a copy."""
        unit, data = packet.unit, packet.unit.data
        count = ceil(len(data) / (self._room - PIECE_HEAD_BYTES))
        if count > MAX_PIECES:
            raise ConfigError(
                f"a packet of {len(data)} bytes makes {count} datagrams, {MAX_PIECES} at most are "
                "permitted: lower the rate or raise the mtu"
            )
        size = ceil(len(data) / count)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        count = len(parts)
        pieces = [(Piece(index, count), part) for index, part in enumerate(parts)]
        if protect and self._settings.parity_span:
            stripes = ceil(count / self._settings.parity_span)
            pieces += [
                (Piece(stripe, count, stripes), parity(parts[stripe::stripes]))
                for stripe in range(stripes)
            ]
        return [
            replace(packet, unit=replace(unit, kind=Kind.PIECE, data=part, piece=piece))
            for piece, part in pieces
        ]

    def _datagram(self, batch: Sequence[_Timed], *, copies: bool = True) -> RtpPacket:
        """A datagram of new units, and copies of the last packets as far as they fit."""
        filled = list(batch)
        for copy in reversed(self._recent if copies and self.protects else ()):
            if self._payload([*filled, copy]) is not None:
                filled.append(replace(copy, unit=replace(copy.unit, is_copy=True)))
        self._recent.extend(new for new in batch if new.unit.kind == Kind.PICTURE)
        payload = self._payload(filled)
        assert payload is not None  # every unit was tried when it was added
        packet = RtpPacket(self._sequence, batch[-1].timestamp, self._ssrc, payload)
        self._sequence = (self._sequence + 1) % (1 << 16)
        return packet

    def _payload(self, batch: Sequence[_Timed]) -> bytes | None:
        """The payload of a datagram with the latest timestamp; None if the units do not fit."""
        latest = max(batch, key=lambda timed: timed.unit.number).timestamp
        payload = b"".join(
            replace(timed.unit, age=(latest - timed.timestamp) % (1 << 32)).to_bytes()
            for timed in batch
        )
        return payload if len(payload) <= self._room else None
