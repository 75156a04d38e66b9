"""A stream in another container: what players know in tracks of theirs, the rest beside it.

Each coded picture is a sample of an AV1 track. The first one of a packet begins with a note, a
metadata unit that AV1 decoders skip, which holds *records*: one for each packet from there up to
that of the next note. A record is a packet without the bytes that the tracks have already.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from google_crc32c import value as crc32c

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.codec.scaffold.unit import plain_bytes
from gsvc.codec.stream.audio import unpack_audio
from gsvc.codec.stream.av1_units import (
    METADATA,
    SEQUENCE_HEADER,
    TEMPORAL_DELIMITER,
    parted,
    split_units,
)
from gsvc.codec.stream.group import split_payload
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.stream.varint import Cutter, read_varint, varint

NOTE = b"\x1fgsv\x01"
"""What a note begins with: metadata_type 31, unregistered user private (AV1, section 6.7.1); our
name; the version of the mapping."""

_TRAILING = b"\x80"  # trailing_bits() of every metadata unit
_CRC_BYTES = 4


class Kind(IntEnum):
    """What of a packet a record has."""

    WHOLE = 0
    """All of it; or the stream's header."""
    PICTURES = 1
    """A picture packet without the plain bytes of its pictures, samples of the AV1 track."""
    SOUND = 2
    """An AUDIO packet without its Opus packets, samples of the Opus track."""


@dataclass(frozen=True)
class Record:
    """A packet, or the header, without what the tracks have."""

    kind: Kind
    head: bytes
    """The bytes before what is left out."""
    crc: bytes = b""
    """The packet's last 4 bytes, behind it; none of a WHOLE one."""
    samples: int = 0
    """How many samples of the track have what is left out."""

    def to_bytes(self) -> bytes:
        """Size of the head << 2 | kind (varint), the number of samples (varint), head, CRC."""
        numbers = varint(len(self.head) << 2 | self.kind) + varint(self.samples)
        return numbers + self.head + self.crc


def record_of(packet: Packet, pictures: int) -> Record:
    """The record of a packet with so many coded pictures."""
    data = packet.to_bytes()
    if packet.is_picture:
        _, plain = split_payload(packet.payload)
        return _without(data, len(plain), Kind.PICTURES, pictures)
    if packet.type == PacketType.AUDIO:
        opus = unpack_audio(packet.payload).packets
        return _without(data, sum(map(len, opus)), Kind.SOUND, len(opus))
    return Record(Kind.WHOLE, data)


def _without(data: bytes, hole: int, kind: Kind, samples: int) -> Record:
    end = len(data) - _CRC_BYTES
    return Record(kind, data[: end - hole], data[end:], samples)


def sample_of(unit: bytes, records: Iterable[Record] = ()) -> bytes:
    """A temporal unit, as packets have it, with all its sizes and with the note of its records."""
    parts = []
    for obu in split_units(unit, may_end_open=True):
        payload = obu.data[obu.start :]
        parts.append(bytes([obu.kind << 3 | 0b10]) + varint(len(payload)) + payload)
    if note := b"".join(record.to_bytes() for record in records):
        payload = NOTE + note + _TRAILING
        place = int(parts[0][0] >> 3 == SEQUENCE_HEADER)  # behind it, as AV1 orders units
        parts.insert(place, bytes([METADATA << 3 | 0b10]) + varint(len(payload)) + payload)
    return bytes([TEMPORAL_DELIMITER << 3 | 0b10, 0]) + b"".join(parts)


def records_in(sample: bytes) -> Iterator[Record]:
    """The records of a sample's note; none without one. Raises BitstreamError for damage."""
    for obu in split_units(sample, may_end_open=True):
        payload = obu.data[obu.start :]
        if obu.kind == METADATA and payload.startswith(NOTE):
            cutter = Cutter(payload[len(NOTE) :].removesuffix(_TRAILING))
            while not cutter.is_empty:
                yield _read(cutter)


def _read(cutter: Cutter) -> Record:
    tag, samples = read_varint(cutter.take), read_varint(cutter.take)
    if tag & 3 not in tuple(Kind) or tag >> 2 > DEFAULT_LIMITS.packet_bytes:
        raise BitstreamError("a note of the AV1 track is damaged: map the stream again")
    head = cutter.take(tag >> 2)
    crc = b"" if tag & 3 == Kind.WHOLE else cutter.take(_CRC_BYTES)
    return Record(Kind(tag & 3), head, crc, samples)


def picture_bytes(sample: bytes) -> bytes:
    """What a record leaves out of a packet, of one sample of the AV1 track."""
    return plain_bytes([parted(sample)])


def packet_of(record: Record, samples: Iterable[bytes]) -> bytes:
    """The packet of a record, given what the track has of it.

    Raises BitstreamError when the track is not the one that was mapped.
    """
    if record.kind == Kind.WHOLE:
        return record.head
    data = record.head + b"".join(samples)
    if crc32c(data).to_bytes(_CRC_BYTES, "little") != record.crc:
        what = "video" if record.kind == Kind.PICTURES else "sound"
        raise BitstreamError(f"its {what} was encoded again: take what gsvc mux wrote")
    return data + record.crc
