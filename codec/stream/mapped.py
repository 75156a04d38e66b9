"""A whole stream, parted into what the tracks of a video file have: pictures, sound, records."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import BinaryIO

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import AudioChunk
from gsvc.codec.limits import DEFAULT_LIMITS, Held
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.stream.audio import unpack_audio
from gsvc.codec.stream.container import StreamReader
from gsvc.codec.stream.group import GroupReader, ParsedPacket
from gsvc.codec.stream.mapping import Kind, Record, record_of
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.stream.texts import read_texts

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
        self._note = [Record(Kind.WHOLE, self.header.to_bytes())]
        self._tick = nominal_time(1, self.header.frame_ticks)
        self._clock = -self._tick
        groups, texts, held = GroupReader(self.header), [], Held(DEFAULT_LIMITS)
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
