"""Whole files: `encode_file` and `decode_file`, each one call from source to complete target."""

import logging
import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.encoder import Encoder
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import BitstreamError, ConfigError
from gsvc.codec.frames import Frame
from gsvc.codec.input import STANDARD_INPUT, display_name
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.audio_source import Sound, open_sound
from gsvc.codec.media.image_writer import image_pattern
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.media.video_writer import VideoWriter, open_writer
from gsvc.codec.output import STANDARD_OUTPUT
from gsvc.codec.portion import Portion, duration, find_portion
from gsvc.codec.reports import DecodeReport, EncodeReport, Progress, Report
from gsvc.codec.stream.audio import AUDIO_CODINGS, pack_audio
from gsvc.codec.stream.container import StreamWriter
from gsvc.codec.stream.decoding import decoded_frames
from gsvc.codec.stream.file import create_stream, open_stream
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.decoders.refiners.registry import model_id

_log = logging.getLogger(__name__)


def encode_file(
    source: str | Path,
    target: str | Path,
    *,
    settings: EncoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    fps: float | None = None,
    audio: str = "opus",
    overwrite: bool = False,
    progress: Report | None = None,
) -> EncodeReport:
    """Encode a video file to a stream. The target appears only when it is complete.

    Args:
        source: A path that FFmpeg reads, a pattern of images ("in/*.png" or "in/%05d.png"), or "-"
            for y4m on standard input.
        target: A path, or "-" for standard output.
        settings: How to encode; level 1 by default.
        start: Second of the source to begin at.
        frames: Most frames to encode; None for all.
        fps: Images a second, of a pattern of images; 25 by default.
        audio: "opus" carries the sound, "none" drops it. Images and pipes have none.
        overwrite: Replace a target that exists.
        progress: Called at the beginning and after every group.

    Returns:
        Size, rate and duration of the stream.

    Raises:
        InputError: The source cannot be read as video.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range, or the target does not end in ".gsv".
        MissingModelError: A scaffold layer needs a model that is not installed.
    """
    began = monotonic()
    if audio not in AUDIO_CODINGS:
        raise ConfigError(f"audio {audio!r}: choose one of {', '.join(AUDIO_CODINGS)}")
    _refuse_same(source, target)
    with open_video(source, start=start, frames=frames, fps=fps) as video:
        sound = open_sound(source, start) if audio == "opus" else Sound(iter(()))
        encoder = Encoder(video.format, settings, audio=bool(sound))
        with encoder, create_stream(target, overwrite) as file:
            encoding = _Encoding(encoder, file, video.frame_count, progress)
            encoding.write(video, sound, cut=frames is not None)
    return encoding.report(str(target), monotonic() - began)


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

    Of a stream that is damaged after its first frames, these are written; then the error is raised,
    unless the settings conceal.

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
        BitstreamError: The source is damaged or beyond `limits`. The target has the frames before
            the damage, if there are any.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range.
        MissingDependencyError: Refiner or motion need an extra that is not installed.
        MissingModelError: Weights of the refiner or of the motion are missing or damaged.
        DeviceError: The device is not available.
    """
    began = monotonic()
    settings = settings or DecoderSettings()
    _refuse_same(source, target)
    with open_stream(source) as file:
        sound, conceals = _carries_sound(target), settings.conceal
        portion = find_portion(file, start, frames, limits, carries_sound=sound, conceals=conceals)
        header = portion.header
        _warn_of_other_model(header.model_id, settings)
        output = open_writer(target, header.format, audio=portion.sound, overwrite=overwrite)
        with Decoder(header, settings, limits) as decoder, output as writer:
            decoding = _Decoding(decoder, writer, progress)
            decoding.write(portion)
        decoding.tell_damage(portion.damage, source, target)
        if header.audio and not sound:
            _log.warning("%s carries no sound: it is left out, use .mp4 or .mkv", _written(target))
    return DecodeReport(
        target=str(target),
        width=header.format.width,
        height=header.format.height,
        frames=len(decoding.times),
        duration=float(duration(decoding.times, header.format)),
        steps=settings.steps,
        concealed=decoding.concealed,
        elapsed=monotonic() - began,
    )


class _Encoding:
    """One video on its way into a stream file."""

    def __init__(
        self, encoder: Encoder, file: BinaryIO, total: int | None, progress: Report | None
    ) -> None:
        """`total`: frames of the video, None where it does not tell."""
        self._encoder, self._total, self._progress = encoder, total, progress
        self._writer = StreamWriter(file, encoder.header)
        self._times = array("q")
        self._audio_size = 0

    def write(self, video: Iterable[Frame], sound: Sound, *, cut: bool) -> None:
        """Encode every frame; `cut`: the sound ends with the last one."""
        for packet in self._with_sound(self._pictures(video), sound, cut=cut):
            before = self._writer.bytes_written
            self._writer.write(packet)
            if packet.type == PacketType.AUDIO:
                self._audio_size += self._writer.bytes_written - before

    def report(self, target: str, elapsed: float) -> EncodeReport:
        """What came out; `elapsed`: seconds it took."""
        header = self._encoder.header
        return EncodeReport(
            target=target,
            width=header.format.width,
            height=header.format.height,
            frames=len(self._times),
            duration=float(duration(self._times, header.format)),
            level=header.level,
            size=self._writer.bytes_written,
            audio_size=self._audio_size,
            elapsed=elapsed,
        )

    def _pictures(self, video: Iterable[Frame]) -> Iterator[Packet]:
        self._tell(0)
        done = 0
        for frame in video:
            self._times.append(frame.pts)
            if ready := self._encoder.encode(frame):
                yield from ready
                done += sum(packet.frames for packet in ready)
                self._tell(done)
        yield from self._encoder.flush()
        self._tell(len(self._times))

    def _with_sound(
        self, packets: Iterator[Packet], sound: Sound, *, cut: bool
    ) -> Iterator[Packet]:
        """Put sound between the packets, each chunk before the first picture shown after it."""
        form = self._encoder.header.format
        for packet in packets:
            if packet.is_picture and packet.pts is not None:
                chunks = sound.until(packet.pts * form.time_base)
            else:
                chunks = sound.rest(duration(self._times, form) if cut else None)
            for chunk in chunks:
                yield Packet(PacketType.AUDIO, 0, pack_audio(chunk))
            yield packet

    def _tell(self, done: int) -> None:
        if self._progress:
            self._progress(Progress(done, self._total, self._writer.bytes_written))


class _Decoding:
    """A stream on its way into a video file."""

    def __init__(self, decoder: Decoder, writer: VideoWriter, progress: Report | None) -> None:
        self._decoder, self._writer, self._progress = decoder, writer, progress
        self._size = 0
        self._damage: BitstreamError | None = None
        self.times = array("q")
        """The pts of the frames written, as they are in the stream."""
        self.concealed = 0
        """How many of them were made up."""

    def write(self, portion: Portion) -> None:
        """Decode a portion, up to damage. Raises BitstreamError where there is no frame at all."""
        try:
            self._put(decoded_frames(self._decoder, self._counted(portion)), portion)
        except BitstreamError as error:
            self._damage = error
            self._put(self._decoder.flush(), portion)
        if not self.times:
            raise self._damage or BitstreamError(
                "the stream holds no picture: there is nothing to decode"
            )

    def tell_damage(
        self, concealed: BitstreamError | None, source: str | Path, target: str | Path
    ) -> None:
        """Raise BitstreamError for damage that ended the video; warn of what was `concealed`."""
        count = len(self.times)
        if self._damage is not None:
            raise type(self._damage)(
                f"{self._damage}; {_written(target)} has the {count} frames that can be read, "
                "conceal to go on after the damage"
            ) from self._damage
        if concealed is not None or self.concealed:
            what = f"{display_name(source)}: {concealed or 'not every packet can be decoded'}"
            _log.warning("%s; %d of %d frames are concealed", what, self.concealed, count)

    def _put(self, frames: Iterable[Frame], portion: Portion) -> None:
        for frame in frames:
            if frame.pts not in portion.times:
                continue
            self._writer.write(replace(frame, pts=frame.pts - portion.origin))
            self.times.append(frame.pts)
            self.concealed += frame.concealed
            if self._progress:
                self._progress(Progress(len(self.times), portion.frames, self._size))

    def _counted(self, portion: Portion) -> Iterator[tuple[Packet, bool]]:
        for packet, is_wanted in portion.packets:
            self._size += len(packet.payload)
            yield packet, is_wanted


def _carries_sound(target: str | Path) -> bool:
    name = str(target)
    is_y4m = name == STANDARD_OUTPUT or name.lower().endswith(".y4m")
    return not is_y4m and image_pattern(name) is None


def _written(target: str | Path) -> str:
    """What a message calls the target."""
    return "standard output" if str(target) == STANDARD_OUTPUT else str(target)


def _warn_of_other_model(stream_model: bytes, settings: DecoderSettings) -> None:
    if settings.steps and stream_model not in (bytes(4), model_id(settings.backend)):
        _log.warning(
            "the stream was made for other weights of the refiner (%s): "
            "pictures may differ from the encoder's",
            stream_model.hex(),
        )


def _refuse_same(source: str | Path, target: str | Path) -> None:
    if STANDARD_INPUT in (str(source), str(target)):
        return
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
        raise ConfigError(f"{target} is the source itself: choose another name for the output")
