"""A stream into a video file that any player shows: its coded pictures, sound and texts."""

import io
import logging
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from gsvc.codec.bitstream.coded_pictures import parted, sequence_size
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import VideoFormat
from gsvc.codec.bitstream.typed import typed
from gsvc.codec.media.mapping import MappedPicture, MappedStream, sample_of
from gsvc.codec.media.muxer import Sink
from gsvc.codec.media.output import atomic_output
from gsvc.codec.media.places import open_stream
from gsvc.codec.media.tracks import AudioTrack, TextTrack

FORMATS = {".mp4": "mp4", ".mkv": "matroska", ".webm": "webm"}
"""FFmpeg's names of the containers, by suffix."""

_KEEPS_ASPECT = {"mp4"}  # the others read it from the stream, where PyAV cannot set it
_LIMITED, _FULL = 1, 2
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
    with open_stream(source) as file:
        mapped = MappedStream(file)
    with atomic_output(target, overwrite) as path:
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
    container = av.open(sink, "w", format=name)
    assert isinstance(container, OutputContainer)
    video = _video_track(container, mapped)
    sound, texts = AudioTrack(container, mapped.sound), TextTrack(container, mapped.texts)
    tick = mapped.header.format.time_base
    ends = [picture.pts for picture in mapped.pictures[1:]] + [mapped.end]
    for picture, end in zip(mapped.pictures, ends, strict=True):
        sound.write_until(picture.pts * tick)
        texts.write_until(picture.pts * tick)
        container.mux(_packet(picture, end, video, tick))
    sound.write_until(None)
    texts.write_until(mapped.end * tick)
    container.close()


def _packet(picture: MappedPicture, end: int, video: Stream, tick: Fraction) -> "Packet[Stream]":
    packet: Packet[Stream] = Packet(sample_of(picture.unit, picture.records))
    packet.stream, packet.time_base = video, tick
    packet.pts = packet.dts = picture.pts
    packet.duration = end - picture.pts
    packet.is_keyframe = picture.is_key
    return packet


def _video_track(container: OutputContainer, mapped: MappedStream) -> VideoStream:
    """An AV1 track that copies; it declares the largest size that a group has."""
    keys = [picture.unit for picture in mapped.pictures if picture.is_key]
    sizes = [sequence_size(parted(unit).sequence) for unit in keys]
    if len(set(sizes)) > 1:
        _log.warning(
            "its groups are coded at %d sizes: a player may resize its window", len(set(sizes))
        )
    size, largest = max(zip(sizes, keys, strict=True))
    with av.open(io.BytesIO(_ivf(sample_of(largest), size)), format="ivf") as template:
        track = container.add_stream_from_template(template.streams.video[0], opaque=True)
    form = mapped.header.format
    track.time_base, context = form.time_base, track.codec_context
    context.sample_aspect_ratio = _aspect(form, size)
    if form.pixel_aspect != 1 and container.format.name not in _KEEPS_ASPECT:
        _log.warning("its pixel aspect is lost in this container: use .mp4")
    context.color_range = _FULL if form.color.full_range else _LIMITED
    context.colorspace = form.color.resolved_matrix(form.height)
    context.color_primaries, context.color_trc = form.color.primaries, form.color.transfer
    return track


def _aspect(form: VideoFormat, size: tuple[int, int]) -> Fraction:
    """Of the coded pixels; rounding to even sizes is left out of account."""
    across, down = (round(8 * s / t) for s, t in zip(size, (form.width, form.height), strict=True))
    return form.pixel_aspect * Fraction(down, across) if across and down else form.pixel_aspect


def _ivf(unit: bytes, size: tuple[int, int]) -> bytes:
    """A file of one AV1 unit, which tells FFmpeg what a track of such units declares."""
    head = struct.pack("<4sHH4sHHIIQ", b"DKIF", 0, 32, b"AV01", *size, 1, 1, 1)
    return head + struct.pack("<IQ", len(unit), 0) + unit
