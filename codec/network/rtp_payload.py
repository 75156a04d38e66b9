"""The RTP payload: units, each a packet or a piece of a larger one (docs/wire.md, section 2).

unit    descriptor (1 byte), number (2 bytes, big-endian), length (varint), then `length` bytes:
        [age (varint)], [back (varint)], [index, count, stripes (2 bytes each)], data
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import Limits
from gsvc.codec.stream.header import HEADER_BYTES, MAGIC
from gsvc.codec.stream.packet import Packet, read_packet
from gsvc.codec.stream.varint import Cutter, read_varint, varint

_AGED, _COPY = 1 << 5, 1 << 4
_MAX_AGE = (1 << 31) - 1
MAX_PIECES = 1 << 14
"""Fragments of one packet: 16 MiB in datagrams of 1200 bytes."""
MAX_SPAN = 64
"""Fragments that share one parity."""
PIECE_HEAD_BYTES = 3 + 5 + 5 + 3 + 6
"""Bytes of a piece beside its data, at most."""

_FIELDS = struct.Struct("!HHH")


class Kind(IntEnum):
    """What a unit holds: the two highest bits of its descriptor; 3 is reserved."""

    PICTURE = 0
    """A picture packet, whole."""
    PIECE = 1
    """A piece of a picture packet."""
    OTHER = 2
    """Any other packet, whole."""


@dataclass(frozen=True)
class Piece:
    """Which piece of a packet a unit holds: a fragment, or the parity of a stripe of fragments."""

    index: int
    """Number of the fragment, or of the stripe."""
    count: int
    """Fragments of the packet, of equal length; the last may be shorter."""
    stripes: int = 0
    """0: a fragment. Else: the parity of the fragments whose number is `index` modulo `stripes`."""


@dataclass(frozen=True)
class Unit:
    """A packet, or a piece of one."""

    kind: Kind
    number: int
    """The picture packet's number modulo 2^16; for any other packet, that of the next picture."""
    data: bytes
    age: int = 0
    """RTP ticks from the unit's time to its datagram's timestamp."""
    back: int = 0
    """Numbers from the INTRA packet that a picture builds on to its own, 0-65535."""
    piece: Piece | None = None
    """Set for kind PIECE only."""
    is_copy: bool = False
    """The packet was sent before."""

    def to_bytes(self) -> bytes:
        """Serialise."""
        rest = varint(self.age) if self.age else b""
        if self.kind != Kind.OTHER:
            rest += varint(self.back)
        if self.piece:
            rest += _FIELDS.pack(self.piece.index, self.piece.count, self.piece.stripes)
        rest += self.data
        descriptor = self.kind << 6 | bool(self.age) * _AGED | self.is_copy * _COPY
        return struct.pack("!BH", descriptor, self.number & 0xFFFF) + varint(len(rest)) + rest


def read_units(payload: bytes) -> Iterator[Unit]:
    """The units of a payload; unknown kinds are skipped. Raises BitstreamError for damaged ones."""
    cutter = Cutter(payload)
    while not cutter.is_empty:
        descriptor, number = struct.unpack("!BH", cutter.take(3))
        body = Cutter(cutter.take(read_varint(cutter.take)))
        if descriptor >> 6 not in tuple(Kind):
            continue
        kind = Kind(descriptor >> 6)
        age = read_varint(body.take) if descriptor & _AGED else 0
        if age > _MAX_AGE:
            raise BitstreamError(f"a unit of age {age} is too old: the datagram is damaged")
        back = 0 if kind == Kind.OTHER else read_varint(body.take)
        if back >= 1 << 16:
            raise BitstreamError(f"a packet builds on one {back} before: the datagram is damaged")
        piece = _read_piece(body) if kind == Kind.PIECE else None
        yield Unit(kind, number, body.rest(), age, back, piece, bool(descriptor & _COPY))


def _read_piece(body: Cutter) -> Piece:
    piece = Piece(*_FIELDS.unpack(body.take(_FIELDS.size)))
    ways = piece.stripes or piece.count
    fits = 1 <= piece.count <= MAX_PIECES and piece.index < ways <= piece.count
    if not fits or piece.stripes and piece.count > MAX_SPAN * piece.stripes:
        raise BitstreamError(f"{piece} cannot be: the datagram is damaged")
    return piece


def read_packet_data(data: bytes, limits: Limits) -> tuple[bytes | None, Packet]:
    """The stream's header, None if it is absent, and the packet; bytes after it are ignored.

    A packet's bytes are those in a file, of INTRA after the stream's header.

    Raises BitstreamError for a damaged packet.
    """
    cutter = Cutter(data)
    header = cutter.take(HEADER_BYTES) if data.startswith(MAGIC) else None
    packet = read_packet(cutter.take, limits)
    if packet.is_key and header is None:
        raise BitstreamError("an INTRA packet lacks the stream's header: it is damaged")
    return header, packet
