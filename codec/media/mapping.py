"""A stream in a video file that any player shows: what players know in tracks, the rest beside it.

Each coded picture is a sample of an AV1 track. The first one of a packet begins with a note, a
metadata unit that AV1 decoders skip, which holds *records*: one for each packet from there up to
that of the next note. A record is a packet without the bytes that the tracks have already.
"""

import io
import logging
import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

import av
from av.container import InputContainer, OutputContainer
from google_crc32c import value as crc32c

from gsvc.codec.bitstream import audio_and_text, coded_pictures, container, group, header, scaffold
from gsvc.codec.bitstream.errors import (
    DEFAULT_LIMITS,
    BitstreamError,
    ConfigError,
    ForeignFileError,
    HeldBytes,
    InputError,
    typed,
)
from gsvc.codec.bitstream.frames import AudioChunk, VideoFormat
from gsvc.codec.media import color, output, places, source_file
from gsvc.codec.media.muxer import AudioTrack, Sink, TextTrack, sample_packet

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
        numbers = container.varint(len(self.head) << 2 | self.kind) + container.varint(self.samples)
        return numbers + self.head + self.crc


def record_of(packet: container.Packet, pictures: int) -> Record:
    """The record of a packet with so many coded pictures."""
    data, kind, samples = packet.to_bytes(), RecordKind.PICTURES, pictures
    if packet.is_picture:
        hole = len(group.split_payload(packet.payload)[1])
    elif packet.type == container.PacketType.AUDIO:
        opus = audio_and_text.unpack_audio(packet.payload).packets
        hole, kind, samples = sum(map(len, opus)), RecordKind.SOUND, len(opus)
    else:
        return Record(RecordKind.WHOLE, data)
    end = len(data) - _CRC_BYTES
    return Record(kind, data[: end - hole], data[end:], samples)


def sample_of(unit: bytes, records: Iterable[Record] = ()) -> bytes:
    """A temporal unit, as packets have it, with all its sizes and with the note of its records."""
    parts = [
        coded_pictures.sized_unit(obu.kind, obu.data[obu.start :])
        for obu in coded_pictures.split_units(unit, may_end_open=True)
    ]
    if note := b"".join(record.to_bytes() for record in records):
        # Behind the sequence header, as AV1 orders units.
        place = int(parts[0][0] >> 3 == coded_pictures.SEQUENCE_HEADER)
        payload = NOTE + note + _TRAILING
        parts.insert(place, coded_pictures.sized_unit(coded_pictures.METADATA, payload))
    return coded_pictures.restore_temporal_unit(b"".join(parts))


def records_in(sample: bytes) -> Iterator[Record]:
    """The records of a sample's note; none without one. Raises BitstreamError for damage."""
    for obu in coded_pictures.split_units(sample, may_end_open=True):
        payload = obu.data[obu.start :]
        if obu.kind == coded_pictures.METADATA and payload.startswith(NOTE):
            cutter = container.Cutter(payload[len(NOTE) :].removesuffix(_TRAILING))
            while cutter.left:
                tag, samples = (container.read_varint(cutter.take) for _ in range(2))
                if tag & 3 not in tuple(RecordKind) or tag >> 2 > DEFAULT_LIMITS.packet_bytes:
                    raise BitstreamError("a note of the AV1 track is damaged: map the stream again")
                head = cutter.take(tag >> 2)
                crc = b"" if tag & 3 == RecordKind.WHOLE else cutter.take(_CRC_BYTES)
                yield Record(RecordKind(tag & 3), head, crc, samples)


def picture_bytes(sample: bytes, head: bytes) -> bytes:
    """What a record leaves out of a packet, of one sample of the AV1 track; `head`: the stream's
    header, or anything else."""
    fitted = head.startswith(header.MAGIC) and header.Header.from_bytes(head).fitted
    return coded_pictures.plain_bytes([coded_pictures.parted(sample)], fitted=fitted)


def packet_of(record: Record, samples: Iterable[bytes]) -> bytes:
    """The packet of a record. Raises BitstreamError where the track is not what was mapped."""
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
        reader = container.StreamReader(file)
        self.header = reader.header
        """The stream's header."""
        if self.header.returns:
            why = "its shots come back, which a video track cannot hold: encode it without that"
            raise BitstreamError(why)
        self.pictures: list[MappedPicture] = []
        """All coded pictures, in order."""
        self.sound: list[AudioChunk] = []
        """All sound, in order."""
        self.frames = 0
        """Frames that gsvc decodes of it."""
        self.size = len(self.header.to_bytes())
        """Bytes of the stream."""
        self._note = [Record(RecordKind.WHOLE, self.header.to_bytes())]
        self._tick = scaffold.nominal_time(1, self.header.frame_ticks)
        self._clock = -self._tick
        groups, texts, held = group.GroupReader(self.header), [], HeldBytes(DEFAULT_LIMITS)
        for packet in reader:
            held.add(_MEMORY * len(packet.payload))
            self._add(packet, groups.read(packet) if packet.is_picture else None)
            if packet.type == container.PacketType.TEXT:
                texts.append(packet)
        if not self.pictures:
            raise BitstreamError("it has no pictures that a player could show: keep it as it is")
        self.texts = audio_and_text.read_texts(texts, held)
        """Title, chapters and subtitles."""

    @property
    def end(self) -> int:
        """When the last frame ends, in ticks."""
        return self._clock + self._tick

    def _add(self, packet: container.Packet, parsed: group.ParsedPacket | None) -> None:
        self.size += len(packet.to_bytes())
        self.frames += packet.frames
        units = () if parsed is None else parsed.units
        if units and self.pictures:
            self._note = []
        self._note.append(record_of(packet, len(units)))
        if packet.type == container.PacketType.AUDIO:
            self.sound.append(audio_and_text.unpack_audio(packet.payload))
        shown = [] if parsed is None else self._shown(parsed)
        for n, (unit, pts) in enumerate(zip(units, list(shown), strict=True)):
            records = () if n else self._note
            self.pictures.append(MappedPicture(unit, pts, packet.is_intra and n == 0, records))

    def _shown(self, parsed: group.ParsedPacket) -> Iterator[int]:
        """When each coded picture of a packet is shown first."""
        for interval in parsed.intervals:
            times = [self._clock + ticks for ticks in accumulate(interval.ticks)]
            self._clock = times[-1]
            if interval.place is not scaffold.Place.AFTER:
                yield times[0] if interval.place is scaffold.Place.BEFORE else times[-1]


FORMATS = {".mp4": "mp4", ".mkv": "matroska", ".webm": "webm"}
"""FFmpeg's names of the containers, by suffix."""

_KEEPS_ASPECT = {"mp4"}  # the others read it from the stream, where PyAV cannot set it
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MuxReport:
    """The result of `gsvc.mux`."""

    target: str
    """Path of what was written, as given."""
    pictures: int
    """Coded pictures, which a player shows."""
    frames: int
    """Frames, which gsvc decodes."""
    duration: float
    """Seconds of video."""
    stream_size: int
    """Bytes of the stream."""
    size: int
    """Bytes of the target."""


@typed
def mux(source: str | Path, target: str | Path, *, overwrite: bool = False) -> MuxReport:
    """Put a stream into a video file that any player shows, and that `demux` gets it back from.

    Players show its coded pictures with its sound and texts; gsvc decodes all of its frames. The
    target appears only when it is complete.

    Args:
        source: A stream: a path, or "-" for standard input.
        target: A path that ends in .mp4, .mkv or .webm.
        overwrite: Replace a target that exists.

    Returns:
        What was written.

    Raises:
        InputError: The source cannot be read.
        BitstreamError: The source is damaged, or has no pictures.
        OutputError: The target cannot be written.
        ConfigError: The target has another suffix.
    """
    name = FORMATS.get(Path(target).suffix.lower())
    if name is None:
        raise ConfigError(f"{target}: a stream goes into {', '.join(FORMATS)}: name it so")
    with places.open_stream(source) as file:
        mapped = MappedStream(file)
    with output.atomic_output(target, overwrite) as path:
        with Sink(path, str(target)) as sink, sink.explained(f"use {', '.join(FORMATS)}"):
            _write(sink, name, mapped)
        size = path.stat().st_size
    return MuxReport(
        target=str(target),
        pictures=len(mapped.pictures),
        frames=mapped.frames,
        duration=float(mapped.end * mapped.header.format.time_base),
        stream_size=mapped.size,
        size=size,
    )


def _write(sink: Sink, name: str, mapped: MappedStream) -> None:
    media = av.open(sink, "w", format=name)
    assert isinstance(media, OutputContainer)
    video = _video_track(media, mapped)
    sound, texts = AudioTrack(media, mapped.sound), TextTrack(media, mapped.texts)
    tick = mapped.header.format.time_base
    ends = [picture.pts for picture in mapped.pictures[1:]] + [mapped.end]
    for picture, end in zip(mapped.pictures, ends, strict=True):
        sound.write_until(picture.pts * tick)
        texts.write_until(picture.pts * tick)
        data, length = sample_of(picture.unit, picture.records), end - picture.pts
        media.mux(sample_packet(data, video, tick, picture.pts, length, picture.is_key))
    sound.write_until(None)
    texts.write_until(mapped.end * tick)
    media.close()


def _video_track(media: OutputContainer, mapped: MappedStream) -> av.VideoStream:
    """An AV1 track that copies; it declares the largest size that a group has."""
    keys = [picture.unit for picture in mapped.pictures if picture.is_key]
    sizes = [coded_pictures.sequence_size(coded_pictures.parted(unit).sequence) for unit in keys]
    if len(set(sizes)) > 1:
        _log.warning(
            "its groups are coded at %d sizes: a player may resize its window", len(set(sizes))
        )
    size, largest = max(zip(sizes, keys, strict=True))
    # A file of one AV1 unit tells FFmpeg what a track of such units declares.
    unit, shape = sample_of(largest), "<4sHH4sHHIIQIQ"
    head = struct.pack(shape, b"DKIF", 0, 32, b"AV01", *size, 1, 1, 1, len(unit), 0)
    with av.open(io.BytesIO(head + unit), format="ivf") as template:
        track = media.add_stream_from_template(template.streams.video[0], opaque=True)
    form = mapped.header.format
    track.time_base, context = form.time_base, track.codec_context
    context.sample_aspect_ratio = _aspect(form, size)
    if form.pixel_aspect != 1 and media.format.name not in _KEEPS_ASPECT:
        _log.warning("its pixel aspect is lost in this container: use .mp4")
    context.color_range = color.range_of(form.color)
    context.colorspace = form.color.resolved_matrix(form.height)
    context.color_primaries, context.color_trc = form.color.primaries, form.color.transfer
    return track


def _aspect(form: VideoFormat, size: tuple[int, int]) -> Fraction:
    """Of the coded pixels; rounding to even sizes is left out of account."""
    across, down = (round(8 * s / t) for s, t in zip(size, (form.width, form.height), strict=True))
    return form.pixel_aspect * Fraction(down, across) if across and down else form.pixel_aspect


_IN_MEMORY = 1 << 24
_TRACKS = {"video": RecordKind.PICTURES, "audio": RecordKind.SOUND}


@typed
def demux(source: str | Path, target: str | Path, *, overwrite: bool = False) -> int:
    """Get the stream back that `mux` put into a video file, byte for byte.

    Args:
        source: The path of a video file.
        target: A path that ends in .gsv, or "-" for standard output. It appears only when it is
            complete.
        overwrite: Replace a target that exists.

    Returns:
        Bytes of the stream.

    Raises:
        InputError: The source cannot be read.
        BitstreamError: The source has no stream, or not all of it any more.
        OutputError: The target cannot be written.
        ConfigError: The target has another suffix.
    """
    if Path(source).is_file() and not places.is_container(source):
        raise InputError(f"{source}: not a video file: give the .mp4, .mkv or .webm of gsvc mux")
    with places.open_any(source) as stream:
        for _ in container.StreamReader(stream):
            pass  # a damaged one raises here, before there is a target
        stream.seek(0)
        data = stream.read()
    with places.create_stream(target, overwrite) as file:
        file.write(data)
    return len(data)


@contextmanager
def open_mapped(source: str | Path) -> Iterator[BinaryIO]:
    """The stream that a video file has; its bytes are a copy. Raises InputError, BitstreamError."""
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
        stream = cast(BinaryIO, copy)
        try:
            with source_file.open_media(source, {"ignore_editlist": "1"}) as media:
                _copy_stream(media, stream)
        except av.FFmpegError as error:
            raise InputError(f"{source}: {source_file.reason(error)}") from error
        stream.seek(0)
        yield stream


def _copy_stream(media: InputContainer, stream: BinaryIO) -> None:
    """Write the packets of all records in the first AV1 track, to the end of its samples."""
    records: list[Record] = []
    samples: dict[RecordKind, deque[bytes]] = defaultdict(deque)
    for packet in media.demux(*media.streams.video[:1], *media.streams.audio[:1]):
        data, kind = bytes(packet), _TRACKS[packet.stream.type]
        context = packet.stream.codec_context
        is_av1 = context is not None and context.codec.canonical_name == "av1"
        if kind is RecordKind.PICTURES and is_av1 and packet.size:
            records += records_in(data)
            data = picture_bytes(data, records[0].head if records else b"")
        if packet.size:
            samples[kind].append(data)
    if not records:
        why = "no gsvc stream in this video: give a .gsv, or an unchanged file of gsvc mux"
        raise ForeignFileError(why)
    if not records[0].head.startswith(header.MAGIC):
        raise BitstreamError("the stream's beginning is missing: the video was cut, take all of it")
    for record in records:
        left = samples[record.kind]
        if record.kind is RecordKind.SOUND and not media.streams.audio:
            raise BitstreamError("the stream's sound was taken out of this video: take all of it")
        if record.samples > len(left):
            return
        stream.write(packet_of(record, [left.popleft() for _ in range(record.samples)]))
