"""Whole files: `encode_file` and `decode_file`, each one call from source to complete target."""

import logging
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from gsvc.codec.decoder import Decoder, DecoderSettings
from gsvc.codec.encoder import Encoder, EncoderSettings
from gsvc.codec.errors import BitstreamError, ConfigError, InputError
from gsvc.codec.frames import AudioChunk, Frame, VideoFormat
from gsvc.codec.input import STANDARD_INPUT
from gsvc.codec.limits import DEFAULT_LIMITS, Held, Limits
from gsvc.codec.media.audio_source import Sound, cut, open_sound
from gsvc.codec.media.image_writer import image_pattern
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.output import STANDARD_OUTPUT
from gsvc.codec.stream.audio import pack_audio, unpack_audio
from gsvc.codec.stream.container import StreamReader, StreamWriter
from gsvc.codec.stream.file import create_stream, open_stream
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.index import StreamIndex
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.decoders.refiners.registry import model_id

AUDIO_CODINGS = ("opus", "none")

_PACKET_BYTES, _OPUS_BYTES = 300, 64  # of memory for a packet of no bytes

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """How far encoding or decoding has come."""

    frames: int
    """Frames done."""
    total: int | None
    """Frames in all; None where the source does not tell."""
    size: int
    """Bytes of the stream so far."""


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class EncodeReport:
    """The result of `gsvc.encode`."""

    target: str
    """Path of the stream, as given."""
    width: int
    """Pixels, as displayed."""
    height: int
    """Pixels, as displayed."""
    frames: int
    """Frames encoded."""
    duration: float
    """Seconds of video."""
    level: int
    """Level of the stream, 0-3."""
    size: int
    """Bytes of the stream."""
    audio_size: int
    """Bytes of the sound in it, with its framing."""
    elapsed: float
    """Seconds that encoding took."""

    @property
    def bpp(self) -> float:
        """Bits per pixel of a frame, without sound."""
        return 8 * (self.size - self.audio_size) / (self.width * self.height * self.frames)

    @property
    def bitrate(self) -> float:
        """Bits per second, without sound."""
        return 8 * (self.size - self.audio_size) / self.duration


@dataclass(frozen=True)
class DecodeReport:
    """The result of `gsvc.decode`."""

    target: str
    """Path of the video, as given."""
    width: int
    """Pixels, as displayed."""
    height: int
    """Pixels, as displayed."""
    frames: int
    """Frames decoded."""
    duration: float
    """Seconds of video."""
    steps: int
    """Steps of the refiner."""
    elapsed: float
    """Seconds that decoding took."""


def encode_file(
    source: str | Path,
    target: str | Path,
    *,
    settings: EncoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    audio: str = "opus",
    overwrite: bool = False,
    progress: Report | None = None,
) -> EncodeReport:
    """Encode a video file to a stream. The target appears only when it is complete.

    Args:
        source: A path that FFmpeg reads, a glob of images, or "-" for y4m on standard input.
        target: A path, or "-" for standard output.
        settings: How to encode; level 1 by default.
        start: Second of the source to begin at.
        frames: Most frames to encode; None for all.
        audio: "opus" carries the sound, "none" drops it. Images and pipes have none.
        overwrite: Replace a target that exists.
        progress: Called at the beginning and after every group.

    Returns:
        Size, rate and duration of the stream.

    Raises:
        InputError: The source cannot be read as video.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range.
        MissingModelError: A scaffold layer needs a model that is not installed.
    """
    began = monotonic()
    if audio not in AUDIO_CODINGS:
        raise ConfigError(f"audio {audio!r}: choose one of {', '.join(AUDIO_CODINGS)}")
    _refuse_same(source, target)
    with open_video(source, start=start, frames=frames) as video:
        sound = open_sound(source, start) if audio == "opus" else Sound(iter(()))
        encoder = Encoder(video.format, settings, audio=bool(sound))
        times = array("q")
        with encoder, create_stream(target, overwrite) as file:
            writer = StreamWriter(file, encoder.header)

            def report(done: int) -> None:
                if progress:
                    progress(Progress(done, video.frame_count, writer.bytes_written))

            pictures = _encoded(encoder, video, times, report)
            audio_size = 0
            for packet in _with_sound(
                pictures, sound, times, encoder.header.format, cut=frames is not None
            ):
                before = writer.bytes_written
                writer.write(packet)
                if packet.type == PacketType.AUDIO:
                    audio_size += writer.bytes_written - before
    return EncodeReport(
        target=str(target),
        width=video.format.width,
        height=video.format.height,
        frames=len(times),
        duration=float(_end_of(times, encoder.header.format)),
        level=encoder.header.level,
        size=writer.bytes_written,
        audio_size=audio_size,
        elapsed=monotonic() - began,
    )


def decode_file(
    source: str | Path,
    target: str | Path,
    *,
    settings: DecoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    overwrite: bool = False,
    progress: Report | None = None,
) -> DecodeReport:
    """Decode a stream to a video file. The target appears only when it is complete.

    A file is checked from beginning to end before its first frame is decoded.

    Args:
        source: A path, or "-" for standard input.
        target: A container by its suffix, numbered images ("out/%05d.png"), or y4m ("-" or
            a path ending in .y4m).
        settings: How to decode; one step of the default refiner by default.
        start: Second to begin at. The first frame decoded gets time 0.
        frames: Most frames to decode; None for all. With `start` or `frames`, only the groups
            of the frames asked for are decoded, and the source must be a file.
        limits: What the stream may ask for.
        overwrite: Replace a target that exists.
        progress: Called after every frame.

    Returns:
        Size and duration of the video.

    Raises:
        InputError: The source cannot be read, or ends before `start`.
        BitstreamError: The source is damaged or beyond `limits`.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range.
        MissingDependencyError: The refiner needs an extra that is not installed.
        MissingModelError: Weights of the refiner are missing or damaged.
        DeviceError: The device is not available.
    """
    began = monotonic()
    settings = settings or DecoderSettings()
    _refuse_same(source, target)
    times = array("q")
    size = 0
    with open_stream(source) as file:
        chosen = _chosen(file, start, frames, limits, carries_sound=_carries_sound(target))
        header = chosen.header
        _warn_of_other_model(header.model_id, settings)
        with (
            Decoder(header, settings, limits) as decoder,
            open_writer(target, header.format, audio=chosen.sound, overwrite=overwrite) as writer,
        ):
            for packet, is_wanted in chosen.packets:
                size += len(packet.payload)
                if not is_wanted:
                    decoder.skip(packet)
                    continue
                for frame in decoder.frames(packet):
                    if frame.pts not in chosen.times:
                        continue
                    writer.write(replace(frame, pts=frame.pts - chosen.origin))
                    times.append(frame.pts)
                    if progress:
                        progress(Progress(len(times), chosen.frames, size))
            if not times:
                raise BitstreamError("the stream holds no picture: there is nothing to decode")
    return DecodeReport(
        target=str(target),
        width=header.format.width,
        height=header.format.height,
        frames=len(times),
        duration=float(_end_of(times, header.format)),
        steps=settings.steps,
        elapsed=monotonic() - began,
    )


def _encoded(
    encoder: Encoder, video: Iterable[Frame], times: "array[int]", report: Callable[[int], None]
) -> Iterator[Packet]:
    """Encode every frame; `times` collects their pts, `report` gets the frames done after each group."""
    report(0)
    done = 0
    for frame in video:
        times.append(frame.pts)
        if ready := encoder.encode(frame):
            yield from ready
            done += sum(packet.frames for packet in ready)
            report(done)
    yield from encoder.flush()
    report(len(times))


def _with_sound(
    packets: Iterator[Packet], sound: Sound, times: "array[int]", form: VideoFormat, *, cut: bool
) -> Iterator[Packet]:
    """Put sound between the packets, each chunk before the first picture that is shown after it."""
    for packet in packets:
        if packet.is_picture and packet.pts is not None:
            chunks = sound.until(packet.pts * form.time_base)
        else:
            chunks = sound.rest(_end_of(times, form) if cut else None)
        for chunk in chunks:
            yield Packet(PacketType.AUDIO, 0, pack_audio(chunk))
        yield packet


def _end_of(times: "array[int]", form: VideoFormat) -> Fraction:
    """Seconds from the first frame to the end of the last."""
    return (times[-1] - times[0]) * form.time_base + 1 / form.frame_rate


_ALWAYS = range(-(1 << 62), 1 << 62)


@dataclass(frozen=True)
class _Chosen:
    """What to decode: packets, and with each whether any of its frames is to be shown; the sound; the number of frames
    if it is known before; their times, and which of them becomes 0."""

    header: Header
    packets: Iterable[tuple[Packet, bool]]
    sound: list[AudioChunk]
    frames: int | None
    times: range = _ALWAYS
    origin: int = 0


def _chosen(
    file: BinaryIO, start: float, frames: int | None, limits: Limits, *, carries_sound: bool
) -> _Chosen:
    if start == 0 and frames is None:
        return _survey(file, limits, carries_sound=carries_sound)
    if not 0 <= start < inf or (frames is not None and frames < 1):
        raise ConfigError(f"start {start} s, {frames} frames: from 0 s on, at least 1 frame")
    if not file.seekable():
        raise ConfigError("a part can only be decoded of a file: save the stream first")
    index = StreamIndex(file, limits)
    first = index.frame_at(start)
    if first >= index.frames:
        raise InputError(f"the stream ends before {start:g} s: choose an earlier start")
    count = min(index.frames - first, frames or index.frames)
    times = index.times[first : first + count]
    sound: list[AudioChunk] = []
    if carries_sound and index.header.audio:
        file.seek(0)
        sound, _ = _overview(StreamReader(file, limits), Held(limits))
        form, begin = (
            index.header.format,
            (times[0] - index.times[0]) * index.header.format.time_base,
        )
        sound = list(cut(sound, begin, begin + _end_of(times, form)))
    packets = index.packets(first, count)
    return _Chosen(index.header, packets, sound, count, range(times[0], times[-1] + 1), times[0])


def _survey(file: BinaryIO, limits: Limits, *, carries_sound: bool) -> _Chosen:
    """All of a stream.

    A writer wants the sound before the pictures. A file is read twice for it; from a pipe, the packets of a
    stream with sound are kept (a stream is small).
    """
    reader, held = StreamReader(file, limits), Held(limits)
    header, packets = reader.header, iter(reader)
    sound: list[AudioChunk] = []
    frames: int | None = None
    if file.seekable():
        sound, frames = _overview(packets, held)
        file.seek(0)
        packets = iter(StreamReader(file, limits))
    elif carries_sound and header.audio:
        kept = []
        for packet in packets:
            held.add(_PACKET_BYTES + len(packet.payload))
            kept.append(packet)
        sound, frames = _overview(kept, held)
        packets = iter(kept)
    every = ((packet, True) for packet in packets)
    return _Chosen(header, every, sound if carries_sound else [], frames)


def _overview(packets: Iterable[Packet], held: Held) -> tuple[list[AudioChunk], int]:
    sound, frames = [], 0
    for packet in packets:
        if packet.type == PacketType.AUDIO:
            chunk = unpack_audio(packet.payload)
            held.add(_PACKET_BYTES + len(packet.payload) + _OPUS_BYTES * len(chunk.packets))
            sound.append(chunk)
        frames += packet.frames
    return sound, frames


def _carries_sound(target: str | Path) -> bool:
    name = str(target)
    is_y4m = name == STANDARD_OUTPUT or name.lower().endswith(".y4m")
    return not is_y4m and image_pattern(name) is None


def _warn_of_other_model(stream_model: bytes, settings: DecoderSettings) -> None:
    if settings.steps and stream_model not in (bytes(4), model_id(settings.backend)):
        _log.warning(
            "the stream was made for other weights of the refiner (%s): pictures may differ from the encoder's",
            stream_model.hex(),
        )


def _refuse_same(source: str | Path, target: str | Path) -> None:
    if STANDARD_INPUT in (str(source), str(target)):
        return
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
        raise ConfigError(f"{target} is the source itself: choose another name for the output")
