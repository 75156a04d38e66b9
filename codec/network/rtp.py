"""RTP: headers, the payload's units, fragments and their parity (docs/wire.md, sections 1 to 4).

Sound is cut to fit datagrams, and put in order again with losses concealed.
"""

import logging
import secrets
import struct
from base64 import b64encode
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from math import ceil, floor, inf
from typing import TypeVar

from gsvc.codec.bitstream import audio_and_text, container, frames
from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, Limits, typed
from gsvc.codec.bitstream.header import HEADER_BYTES, MAGIC, Header
from gsvc.codec.network import stats
from gsvc.codec.network.address import Address

CLOCK_RATE, PAYLOAD_TYPE = 90_000, 96
"""Ticks of an RTP timestamp in a second; the first dynamic payload type (RFC 3551)."""
RTP_HEADER_BYTES = 12

_LAYOUT = struct.Struct("!BBHII")
_VERSION = 2


@dataclass(frozen=True)
class RtpPacket:
    """One RTP packet."""

    sequence: int
    """0 to 65535, one more from packet to packet."""
    timestamp: int
    """Ticks of the 90 kHz clock, 0 to 2^32 - 1."""
    ssrc: int
    """The source, 0 to 2^32 - 1: another one with each new sender."""
    payload: bytes
    marker: bool = False
    payload_type: int = PAYLOAD_TYPE

    def to_bytes(self) -> bytes:
        """The 12 bytes of the header, then the payload."""
        kind = self.marker << 7 | self.payload_type
        head = _LAYOUT.pack(_VERSION << 6, kind, self.sequence, self.timestamp, self.ssrc)
        return head + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> "RtpPacket":
        """Parse; contributing sources, an extension and padding are skipped.

        Raises BitstreamError for any other datagram.
        """
        if len(data) < RTP_HEADER_BYTES or data[0] >> 6 != _VERSION:
            raise BitstreamError("a datagram is not RTP of version 2: is the sender a gsvc?")
        first, kind, sequence, timestamp, ssrc = _LAYOUT.unpack_from(data)
        begin, end = RTP_HEADER_BYTES + 4 * (first & 15), len(data)
        if first >> 4 & 1:  # an extension: its length in words follows the sources
            begin += 4 + 4 * int.from_bytes(data[begin + 2 : begin + 4], "big")
        if first >> 5 & 1:  # padding: its last byte is its length
            end -= max(1, data[-1])
        if begin > end:
            raise BitstreamError("an RTP header is longer than its datagram: it is damaged")
        return cls(sequence, timestamp, ssrc, data[begin:end], bool(kind >> 7), kind & 127)


def rtp_timestamp(pts: int, time_base: Fraction) -> int:
    """A presentation time as an RTP timestamp: to the nearest tick, modulo 2^32 (13 hours)."""
    return floor(pts * time_base * CLOCK_RATE + Fraction(1, 2)) % (1 << 32)


def presentation_time(timestamp: int, time_base: Fraction) -> int:
    """The presentation time of an unwrapped RTP timestamp.

    Undoes `rtp_timestamp` exactly where a stream's tick is no shorter than the RTP clock's.
    """
    return floor(Fraction(timestamp, CLOCK_RATE) / time_base + Fraction(1, 2))


def unwrap(value: int, near: int, bits: int) -> int:
    """The number closest to `near` that is `value` modulo 2^bits and at least 0."""
    half = 1 << bits - 1
    number = near + (value - near + half) % (1 << bits) - half
    return number if number >= 0 else number + (1 << bits)


_AGED, _COPY = 1 << 5, 1 << 4
_MAX_AGE = (1 << 31) - 1
MAX_PIECES = 1 << 14
"""Fragments of one packet: 16 MiB in datagrams of 1200 bytes."""
MAX_SPAN = 64
"""Fragments that share one parity."""
PIECE_HEAD_BYTES = 3 + 5 + 5 + 3 + 6
"""Bytes of a piece beside its data, at most."""

_FIELDS = struct.Struct("!HHH")


class UnitKind(IntEnum):
    """What a unit holds: the two highest bits of its descriptor; 3 is reserved."""

    PICTURE = 0
    PIECE = 1
    OTHER = 2


@dataclass(frozen=True)
class PacketPiece:
    """Which piece of a packet a unit holds: a fragment, or the parity of a stripe of fragments."""

    index: int
    """Number of the fragment, or of the stripe."""
    count: int
    """Fragments of the packet, of equal length; the last may be shorter."""
    stripes: int = 0
    """0: a fragment. Else: the parity of the fragments whose number is `index` modulo `stripes`."""


@dataclass(frozen=True)
class PayloadUnit:
    """A packet, or a piece of one."""

    kind: UnitKind
    number: int
    """The picture packet's number modulo 2^16; for any other packet, that of the next picture."""
    data: bytes
    age: int = 0
    """RTP ticks from the unit's time to its datagram's timestamp."""
    back: int = 0
    """Numbers from the INTRA packet that a picture builds on to its own, 0-65535."""
    piece: PacketPiece | None = None
    """Set for kind PIECE only."""
    is_copy: bool = False

    def to_bytes(self) -> bytes:
        """Serialise."""
        rest = container.varint(self.age) if self.age else b""
        if self.kind != UnitKind.OTHER:
            rest += container.varint(self.back)
        if self.piece:
            rest += _FIELDS.pack(self.piece.index, self.piece.count, self.piece.stripes)
        rest += self.data
        descriptor = self.kind << 6 | bool(self.age) * _AGED | self.is_copy * _COPY
        head = struct.pack("!BH", descriptor, self.number & 0xFFFF)
        return head + container.varint(len(rest)) + rest


def read_units(payload: bytes) -> Iterator[PayloadUnit]:
    """The units of a payload; unknown kinds are skipped. Raises BitstreamError for damaged ones."""
    cutter = container.Cutter(payload)
    while cutter.left:
        descriptor, number = struct.unpack("!BH", cutter.take(3))
        body = container.Cutter(cutter.take(container.read_varint(cutter.take)))
        if descriptor >> 6 not in tuple(UnitKind):
            continue
        kind = UnitKind(descriptor >> 6)
        age = container.read_varint(body.take) if descriptor & _AGED else 0
        if age > _MAX_AGE:
            raise BitstreamError(f"a unit of age {age} is too old: the datagram is damaged")
        back = 0 if kind == UnitKind.OTHER else container.read_varint(body.take)
        if back >= 1 << 16:
            raise BitstreamError(f"a packet builds on one {back} before: the datagram is damaged")
        piece = None
        if kind == UnitKind.PIECE:
            piece = PacketPiece(*_FIELDS.unpack(body.take(_FIELDS.size)))
            ways = piece.stripes or piece.count
            fits = 1 <= piece.count <= MAX_PIECES and piece.index < ways <= piece.count
            if not fits or piece.stripes and piece.count > MAX_SPAN * piece.stripes:
                raise BitstreamError(f"{piece} cannot be: the datagram is damaged")
        yield PayloadUnit(kind, number, body.rest(), age, back, piece, bool(descriptor & _COPY))


def read_packet_data(data: bytes, limits: Limits) -> tuple[bytes | None, container.Packet]:
    """The stream's header, None if it is absent, and the packet; bytes after it are ignored.

    A packet's bytes are those in a file, of INTRA after the stream's header.

    Raises BitstreamError for a damaged packet.
    """
    cutter = container.Cutter(data)
    header = cutter.take(HEADER_BYTES) if data.startswith(MAGIC) else None
    packet = container.read_packet(cutter.take, limits)
    if packet.is_intra and header is None:
        raise BitstreamError("an INTRA packet lacks the stream's header: it is damaged")
    return header, packet


def parity(fragments: Sequence[bytes]) -> bytes:
    """The exclusive or of the fragments; shorter ones are padded with zeros."""
    size = max(map(len, fragments))
    total = 0
    for fragment in fragments:
        total ^= int.from_bytes(fragment.ljust(size, b"\0"), "big")
    return total.to_bytes(size, "big")


UNIT_HEAD_BYTES = 3 + 3 + 5
"""Bytes of a unit beside its data, at most, of a packet that is no picture."""
LEAST_MTU = 96
"""Bytes of a datagram that has room for a piece of a picture."""


@typed
@dataclass(frozen=True)
class WireSettings:
    """How packets become datagrams. Raises ConfigError for values out of range."""

    mtu: int = 1200
    """Bytes of a datagram at most, with the RTP header, without the 28 of IP and UDP; 96-65507."""
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
    unit: PayloadUnit
    timestamp: int


def _splits(count: int, parities: int) -> tuple[int, ...]:
    """Numbers of stripes of so many fragments. From 4 parities on there are two splits: each
    fragment is in two stripes. 20 fragments and 11 parities come incomplete in 0.3 % of cases at
    5 % loss; in one split, 10 parities, in 7 %."""
    half = parities // 2
    return (half, half + 1) if half > 1 and count <= MAX_SPAN * half else (parities,)


class Packetizer:
    """Makes the datagrams of one stream, source `ssrc`, numbered from `sequence`. None: a random
    one. Receivers get times of a finer time base than the wire's to the nearest 1/90000 s."""

    def __init__(
        self,
        header: Header,
        ssrc: int | None = None,
        settings: WireSettings | None = None,
        *,
        sequence: int = 0,
    ) -> None:
        self._settings = settings or WireSettings()
        self._header = header.to_bytes()
        self._time_base = header.format.time_base
        self._ssrc = secrets.randbits(32) if ssrc is None else ssrc
        self._sequence = sequence
        self._room = self._settings.mtu - RTP_HEADER_BYTES
        self._number = self._timestamp = 0
        self._recent: deque[_Timed] = deque(maxlen=self._settings.redundancy)
        self.protects = True
        """Whether copies and parity are sent, as the settings have them."""
        self.protection = 0
        """Bytes of copies and parity so far, without headers."""
        self.is_answered = True
        """Whether a receiver may ask again. Else pieces of INTER packets have parity, too."""

    @property
    def unprotected(self) -> float:
        """Bits of an INTRA packet, without the stream's header, up to which it has no parity."""
        if not self.protects or not self._settings.parity_span:
            return inf
        has_room = self._settings.parity_span > 1
        return 8 * has_room * (self._room - PIECE_HEAD_BYTES - len(self._header))

    def packetize(self, packets: Sequence[container.Packet]) -> list[RtpPacket]:
        """The datagrams of packets that are ready together, in the order in which to send them.

        Raises ConfigError for a picture packet without number, group or pts or with more than
        MAX_PIECES fragments, and for any other packet that does not fit a datagram.
        """
        datagrams: list[RtpPacket] = []
        batch: list[_Timed] = []
        is_sound = False
        for packet in packets:
            new = self._timed(packet)
            is_small = self._payload([new]) is not None
            if batch and (packet.is_intra or self._payload([*batch, new]) is None):
                datagrams.append(self._datagram(batch, copies=not is_sound))
                batch = []
            is_sound = packet.type == container.PacketType.AUDIO and (is_sound or not batch)
            if is_small and not packet.is_intra:
                batch.append(new)
                continue
            if not packet.is_picture:
                raise ConfigError(
                    f"a packet of {len(packet.payload)} bytes that is no picture does not fit a "
                    f"datagram of {self._settings.mtu}: make it smaller"
                )
            is_alone = packet.is_intra or not self.is_answered
            *pieces, last = self._pieces(new, protect=self.protects and is_alone)
            datagrams += [self._datagram([piece], copies=False) for piece in pieces]
            datagrams.append(self._datagram([last]))
        return [*datagrams, self._datagram(batch, copies=not is_sound)] if batch else datagrams

    def forget(self) -> None:
        """Repeat no packets so far."""
        self._recent.clear()

    def _timed(self, packet: container.Packet) -> _Timed:
        back = 0
        if packet.is_picture:
            if packet.number is None or packet.group is None or packet.pts is None:
                raise ConfigError("a packet has no number or time: take packets from an Encoder")
            self._number, back = packet.number, packet.number - packet.group
            self._timestamp = rtp_timestamp(packet.pts, self._time_base)
        kind = UnitKind.PICTURE if packet.is_picture else UnitKind.OTHER
        data = self._header * packet.is_intra + packet.to_bytes()
        unit = PayloadUnit(kind, self._number, data, back=back)
        self._number += packet.is_picture
        return _Timed(unit, self._timestamp)

    def _pieces(self, packet: _Timed, *, protect: bool) -> list[_Timed]:
        """Fragments of equal length, then their parities. A single one has none, unless each has:
        on a thin link it costs more quality than a loss in twenty."""
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
        pieces = [(PacketPiece(index, count), part) for index, part in enumerate(parts)]
        span = self._settings.parity_span
        if protect and span and (count > 1 or span == 1):
            pieces += [
                (PacketPiece(stripe, count, stripes), parity(parts[stripe::stripes]))
                for stripes in _splits(count, ceil(count / span))
                for stripe in range(stripes)
            ]
            self.protection += sum(len(part) for _, part in pieces[count:])
        return [
            replace(packet, unit=replace(unit, kind=UnitKind.PIECE, data=part, piece=piece))
            for piece, part in pieces
        ]

    def _datagram(self, batch: Sequence[_Timed], *, copies: bool = True) -> RtpPacket:
        """A datagram of new units, and copies of the last packets as far as they fit."""
        filled = list(batch)
        for copy in reversed(self._recent if copies and self.protects else ()):
            if self._payload([*filled, copy]) is not None:
                filled.append(replace(copy, unit=replace(copy.unit, is_copy=True)))
                self.protection += len(copy.unit.data)
        self._recent.extend(new for new in batch if new.unit.kind == UnitKind.PICTURE)
        payload = self._payload(filled)
        assert payload is not None  # every unit was tried when it was added
        packet = RtpPacket(self._sequence, batch[-1].timestamp, self._ssrc, payload)
        self._sequence = (self._sequence + 1) % (1 << 16)
        return packet

    def _payload(self, batch: Sequence[_Timed]) -> bytes | None:
        """The payload of a datagram with the latest timestamp; None if the units do not fit."""
        # What is no picture has the number of the next one, and the time of the last.
        order = [(one.unit.number, one.unit.kind != UnitKind.OTHER) for one in batch]
        latest = batch[order.index(max(order))].timestamp
        payload = b"".join(
            replace(timed.unit, age=(latest - timed.timestamp) % (1 << 32)).to_bytes()
            for timed in batch
        )
        return payload if len(payload) <= self._room else None


_DATAGRAMS, _BYTES = 512, 2 << 20
_REPEATS = 3
_USABLE = 2.0  # seconds for which a receiver can use a datagram
_REPEAT_SHARE, _REPEAT_SECONDS = 0.25, 0.5
"""Of a link, what repeats may take; seconds of it that they may take at once."""


@dataclass
class _Sent:
    data: bytes
    at: float = float("inf")
    """When it left, or is to be sent again."""
    repeats: int = 0


class RetransmissionBuffer:
    """Keeps at most 512 datagrams and 2 MiB, of seconds that a receiver can still use.

    Each is sent again at most 3 times, so that forged requests cause little traffic, and once in a
    round trip: a request that comes earlier was made before the repetition could arrive. All
    together take a part of the link where its `rate`, in bits per second, is known.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._spare, self._asked = 0.0, float("-inf")
        self.clear()

    def clear(self) -> None:
        """Forget all: an intra picture is to come."""
        self._sent, self._bytes = dict[int, _Sent](), 0

    def add(self, sequence: int, data: bytes) -> None:
        """Keep a datagram and drop the oldest ones."""
        self._drop(sequence)
        self._sent[sequence] = _Sent(data)
        self._bytes += len(data)
        while len(self._sent) > _DATAGRAMS or self._bytes > _BYTES:
            self._drop(next(iter(self._sent)))

    def left(self, sequence: int, now: float) -> None:
        """A datagram left."""
        if sent := self._sent.get(sequence):
            sent.at = now

    def again(
        self, sequences: Iterable[int], now: float, round_trip: float, waits: Container[bytes] = ()
    ) -> list[bytes]:
        """The datagrams of these sequence numbers, as far as they may be sent again.

        `now`, `round_trip`: in seconds; `waits`: datagrams that are to leave anyway.
        """
        found = []
        self._spare = min(_REPEAT_SECONDS, self._spare + _REPEAT_SHARE * (now - self._asked))
        self._asked = now
        for sent in filter(None, map(self._sent.get, sequences)):
            is_due = not sent.repeats or round_trip <= now - sent.at
            is_due = is_due and sent.repeats < _REPEATS and now - sent.at <= _USABLE + round_trip
            if is_due and self._spare > 0 and sent.data not in waits:
                sent.repeats, sent.at = sent.repeats + 1, now
                found.append(sent.data)
                self._spare -= stats.wire_bits(sent.data) / self.rate if self.rate else 0
        return found

    def _drop(self, sequence: int) -> None:
        if old := self._sent.pop(sequence, None):
            self._bytes -= len(old.data)


def session_description(header: Header, address: Address) -> str:
    """SDP of the stream sent to `address`; its `config` is the 32-byte header in base64."""
    version = 6 if ":" in address.host else 4
    config = b64encode(header.to_bytes()).decode()
    lines = (
        "v=0",
        f"o=- 0 0 IN IP{version} {address.host}",
        "s=gsvc",
        f"c=IN IP{version} {address.host}",
        "t=0 0",
        f"m=video {address.port} RTP/AVPF {PAYLOAD_TYPE}",
        f"a=rtpmap:{PAYLOAD_TYPE} x-gsvc/{CLOCK_RATE}",
        f"a=fmtp:{PAYLOAD_TYPE} version=1; config={config}",
        f"a=rtcp-fb:{PAYLOAD_TYPE} nack",
        f"a=rtcp-fb:{PAYLOAD_TYPE} nack pli",
        "a=rtcp-mux",
        "a=sendonly",
    )
    return "\r\n".join(lines) + "\r\n"


_LONGEST = audio_and_text.SAMPLE_RATE // 5
"""Of a piece, in samples: what is lost with a datagram at most."""
_CONCEALED = 2 * audio_and_text.SAMPLE_RATE
"""Longest loss that is concealed, in samples; a longer one stays a gap."""
_SILENT = 960  # samples of a packet of silence
_KEPT = 256  # pieces that wait to be taken; beyond, the oldest are dropped

_log = logging.getLogger(__name__)


def sound_packet(chunk: frames.AudioChunk) -> container.Packet:
    """The packet of a chunk."""
    return container.Packet(container.PacketType.AUDIO, 0, audio_and_text.pack_audio(chunk))


_Chunk = TypeVar("_Chunk", frames.AudioChunk, frames.AudioChunk | None)


def cut_to_fit(chunks: Iterable[_Chunk], most: int) -> Iterator[_Chunk]:
    """Pieces of at most a fifth of a second, each of at most `most` bytes as a packet; None where
    no chunk has come so far.

    What does not fit by itself is left out; a warning tells of the first.
    """
    is_told = False
    for chunk in chunks:
        if chunk is None:
            yield chunk
            continue
        count = max(1, _LONGEST // chunk.packet_samples)
        first = 0
        while first < len(chunk.packets):
            piece = _part(chunk, first, count)
            while len(piece.packets) > 1 and len(sound_packet(piece).to_bytes()) > most:
                piece = _part(chunk, first, len(piece.packets) - 1)
            first += len(piece.packets)
            if len(sound_packet(piece).to_bytes()) <= most:
                yield piece
            elif not is_told:
                is_told = True
                _log.warning("sound is left out that fits no datagram: lower its rate")


def joined(chunks: Iterable[frames.AudioChunk], most: int) -> Iterator[frames.AudioChunk]:
    """Chunks that follow each other as one, as far as it has at most `most` bytes as a packet."""
    whole: frames.AudioChunk | None = None
    for chunk in chunks:
        if whole is None:
            whole = chunk
            continue
        longer = replace(whole, packets=(*whole.packets, *chunk.packets))
        follows = replace(whole, pts=whole.end, packets=chunk.packets) == chunk
        if follows and len(sound_packet(longer).to_bytes()) <= most:
            whole = longer
        else:
            yield whole
            whole = chunk
    yield from () if whole is None else (whole,)


class ArrivedSound:
    """The sound of streams that come one after another, in order, until it is taken.

    A loss of up to two seconds is filled with silence that any Opus decoder takes (RFC 6716,
    section 4.3). After frames of no bytes, which tell of a loss, FFmpeg's own bangs.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, frames.AudioChunk]] = deque(maxlen=_KEPT)
        self._last: tuple[int, frames.AudioChunk] | None = None
        self.lost = 0  # ticks of 1/48000 s that did not come in time

    def add(self, stream: int, packet: container.Packet) -> bool:
        """Take an AUDIO packet of the stream of this number; False for one that is damaged."""
        try:
            chunk = audio_and_text.unpack_audio(packet.payload)
        except BitstreamError:
            return False
        if chunk.packets:
            self._put(stream, chunk)
        return True

    def take(self, stream: int, shift: Fraction) -> list[frames.AudioChunk]:
        """What came of a stream, `shift` seconds later; that of older streams is dropped."""
        taken = [chunk for number, chunk in self._waiting if number == stream]
        self._waiting = deque((one for one in self._waiting if one[0] > stream), maxlen=_KEPT)
        ticks = round(shift * audio_and_text.SAMPLE_RATE)
        return [replace(chunk, pts=chunk.pts + ticks) for chunk in taken]

    def _put(self, stream: int, chunk: frames.AudioChunk) -> None:
        if self._last is not None and self._last[0] == stream:
            before = self._last[1]
            lost = chunk.pts - before.end
            if lost < 0:
                return  # late: its place is taken
            self.lost += lost
            if _SILENT <= lost <= _CONCEALED:  # CELT, mono or stereo as before
                silent = bytes([0xF8 | before.packets[-1][0] & 4, 0xFF, 0xFE])
                packets = (silent,) * (lost // _SILENT)
                gap = replace(before, pts=before.end, packet_samples=_SILENT, packets=packets)
                self._waiting.append((stream, gap))
        self._last = stream, chunk
        self._waiting.append((stream, chunk))


def _part(chunk: frames.AudioChunk, first: int, count: int) -> frames.AudioChunk:
    pts = chunk.pts + first * chunk.packet_samples
    return replace(chunk, pts=pts, packets=chunk.packets[first : first + count])
