"""A stream in another container: what players know in tracks of theirs, the rest beside it.

Each coded picture is a sample of an AV1 track. The first one of a packet begins with a note, a
metadata unit that AV1 decoders skip, which holds *records*: one for each packet from there up to
that of the next note. A record is a packet without the bytes that the tracks have already.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import BinaryIO

from google_crc32c import value as crc32c

from gsvc.codec.bitstream.audio import unpack_audio
from gsvc.codec.bitstream.coded_pictures import (
    METADATA,
    SEQUENCE_HEADER,
    TEMPORAL_DELIMITER,
    parted,
    plain_bytes,
    split_units,
)
from gsvc.codec.bitstream.container import (
    Cutter,
    Packet,
    PacketType,
    StreamReader,
    read_varint,
    varint,
)
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import AudioChunk
from gsvc.codec.bitstream.group import GroupReader, ParsedPacket, split_payload
from gsvc.codec.bitstream.layout import nominal_time
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, HeldBytes
from gsvc.codec.bitstream.scaffold import Place
from gsvc.codec.bitstream.texts import read_texts

NOTE = b"\x1fgsv\x01"
"""What a note begins with: metadata_type 31, unregistered user private (AV1, section 6.7.1); our
name; the version of the mapping."""

_TRAILING = b"\x80"  # trailing_bits() of every metadata unit
_CRC_BYTES = 4


class RecordKind(IntEnum):
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

    kind: RecordKind
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
        return _without(data, len(plain), RecordKind.PICTURES, pictures)
    if packet.type == PacketType.AUDIO:
        opus = unpack_audio(packet.payload).packets
        return _without(data, sum(map(len, opus)), RecordKind.SOUND, len(opus))
    return Record(RecordKind.WHOLE, data)


def _without(data: bytes, hole: int, kind: RecordKind, samples: int) -> Record:
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
    if tag & 3 not in tuple(RecordKind) or tag >> 2 > DEFAULT_LIMITS.packet_bytes:
        raise BitstreamError("a note of the AV1 track is damaged: map the stream again")
    head = cutter.take(tag >> 2)
    crc = b"" if tag & 3 == RecordKind.WHOLE else cutter.take(_CRC_BYTES)
    return Record(RecordKind(tag & 3), head, crc, samples)


def picture_bytes(sample: bytes) -> bytes:
    """What a record leaves out of a packet, of one sample of the AV1 track."""
    return plain_bytes([parted(sample)])


def packet_of(record: Record, samples: Iterable[bytes]) -> bytes:
    """The packet of a record, given what the track has of it.

    Raises BitstreamError when the track is not the one that was mapped.
    """
    if record.kind == RecordKind.WHOLE:
        return record.head
    data = record.head + b"".join(samples)
    if crc32c(data).to_bytes(_CRC_BYTES, "little") != record.crc:
        what = "video" if record.kind == RecordKind.PICTURES else "sound"
        raise BitstreamError(f"its {what} was encoded again: take what gsvc mux wrote")
    return data + record.crc


_MEMORY = 3  # of a packet's bytes: itself, its pictures, its record


@dataclass(frozen=True)
class MappedPicture:
    """A coded picture as a sample of the AV1 track."""

    unit: bytes
    """Its temporal unit, as packets have it."""
    pts: int
    """When it is shown first, in ticks of the stream's time base."""
    is_key: bool
    """Whether it begins a group."""
    records: tuple[Record, ...] | list[Record]
    """Of its packet and those that follow it without pictures; of the first picture also those
    before it. None of a picture that is not the first of its packet."""


class MappedStream:
    """The tracks of a stream. Raises BitstreamError for one that is damaged or has no pictures."""

    def __init__(self, file: BinaryIO) -> None:
        """Read a stream to its end."""
        reader = StreamReader(file)
        self.header = reader.header
        """The stream's header."""
        self.pictures: list[MappedPicture] = []
        """All coded pictures, in order."""
        self.sound: list[AudioChunk] = []
        """All sound, in order."""
        self.frames = 0
        """Frames that gsvc decodes of it."""
        self.size = len(self.header.to_bytes())
        """Bytes of the stream."""
        self._note = [Record(RecordKind.WHOLE, self.header.to_bytes())]
        self._tick = nominal_time(1, self.header.frame_ticks)
        self._clock = -self._tick
        groups, texts, held = GroupReader(self.header), [], HeldBytes(DEFAULT_LIMITS)
        for packet in reader:
            held.add(_MEMORY * len(packet.payload))
            self._add(packet, groups.read(packet) if packet.is_picture else None)
            if packet.type == PacketType.TEXT:
                texts.append(packet)
        if not self.pictures:
            raise BitstreamError("it has no pictures that a player could show: keep it as it is")
        self.texts = read_texts(texts, held)
        """Title, chapters and subtitles."""

    @property
    def end(self) -> int:
        """When the last frame ends, in ticks."""
        return self._clock + self._tick

    def _add(self, packet: Packet, parsed: ParsedPacket | None) -> None:
        self.size += len(packet.to_bytes())
        self.frames += packet.frames
        units = () if parsed is None else parsed.units
        if units and self.pictures:
            self._note = []
        self._note.append(record_of(packet, len(units)))
        if packet.type == PacketType.AUDIO:
            self.sound.append(unpack_audio(packet.payload))
        for n, (unit, pts) in enumerate(zip(units, self._shown(parsed), strict=True)):
            records = () if n else self._note
            self.pictures.append(MappedPicture(unit, pts, packet.is_key and n == 0, records))

    def _shown(self, parsed: ParsedPacket | None) -> list[int]:
        """When each coded picture of a packet is shown first."""
        return [] if parsed is None else list(self._times(parsed))

    def _times(self, parsed: ParsedPacket) -> Iterator[int]:
        for interval in parsed.intervals:
            times = [self._clock + ticks for ticks in accumulate(interval.ticks)]
            self._clock = times[-1]
            if interval.place is not Place.AFTER:
                yield times[0] if interval.place is Place.BEFORE else times[-1]
