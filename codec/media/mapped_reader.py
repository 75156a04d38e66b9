"""A stream out of a video file that it was mapped into."""

from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream

from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.errors import BitstreamError, InputError
from gsvc.codec.bitstream.header import MAGIC
from gsvc.codec.bitstream.typed import typed
from gsvc.codec.media.mapping import Record, RecordKind, packet_of, picture_bytes, records_in
from gsvc.codec.media.places import create_stream, is_container, open_any
from gsvc.codec.media.video_source import open_media, reason

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
    if Path(source).is_file() and not is_container(source):
        raise InputError(f"{source}: not a video file: give the .mp4, .mkv or .webm of gsvc mux")
    with open_any(source) as stream:
        for _ in StreamReader(stream):
            pass  # a damaged one raises here, before there is a target
        stream.seek(0)
        data = stream.read()
    with create_stream(target, overwrite) as file:
        file.write(data)
    return len(data)


@contextmanager
def open_mapped(source: str | Path) -> Iterator[BinaryIO]:
    """The stream that a video file has; its bytes are a copy. Raises InputError, BitstreamError."""
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
        stream = cast(BinaryIO, copy)
        try:
            with open_media(source, {"ignore_editlist": "1"}) as container:
                _copy_stream(container, stream)
        except av.FFmpegError as error:
            raise InputError(f"{source}: {reason(error)}") from error
        stream.seek(0)
        yield stream


def _copy_stream(container: InputContainer, stream: BinaryIO) -> None:
    """Write the packets of all records; the stream ends where its samples do."""
    records, samples = _parts(container)
    if not records:
        raise BitstreamError(
            "no gsvc stream in this video: give a .gsv, or what gsvc mux wrote, as it wrote it"
        )
    if not records[0].head.startswith(MAGIC):
        raise BitstreamError("the stream's beginning is missing: the video was cut, take all of it")
    for record in records:
        left = samples[record.kind]
        if record.kind is RecordKind.SOUND and not container.streams.audio:
            raise BitstreamError("the stream's sound was taken out of this video: take all of it")
        if record.samples > len(left):
            return
        stream.write(packet_of(record, [left.popleft() for _ in range(record.samples)]))


def _parts(container: InputContainer) -> tuple[list[Record], dict[RecordKind, deque[bytes]]]:
    """The records of the first AV1 track, and what each track has of them."""
    records: list[Record] = []
    samples: dict[RecordKind, deque[bytes]] = defaultdict(deque)
    for packet in container.demux(*container.streams.video[:1], *container.streams.audio[:1]):
        data, kind = bytes(packet), _TRACKS[packet.stream.type]
        if kind is RecordKind.PICTURES and _is_av1(packet):
            records += records_in(data)
            data = picture_bytes(data)
        if packet.size:
            samples[kind].append(data)
    return records, samples


def _is_av1(packet: "Packet[Stream]") -> bool:
    context = packet.stream.codec_context
    return packet.size > 0 and context is not None and context.codec.canonical_name == "av1"
