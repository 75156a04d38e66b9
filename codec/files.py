"""Whole files: `encode_file` and `decode_file`, each one call from source to complete target."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.encode_job import EncodeJob
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.file_work import FileDecoding, written
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.marks import mark_of
from gsvc.codec.media.image_writer import image_pattern
from gsvc.codec.media.mapped_reader import open_any
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.missed import missed_goals
from gsvc.codec.open_files import Place, local_path, shown
from gsvc.codec.output import STANDARD_OUTPUT, refuse_same
from gsvc.codec.portion import duration, find_portion
from gsvc.codec.reports import DecodeReport, EncodeReport, Report
from gsvc.codec.stream.audio import AUDIO_CODINGS
from gsvc.codec.stream.file import create_stream
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.texts import NO_TEXTS, Texts
from gsvc.codec.target_size import encode_to_size
from gsvc.codec.typed import typed
from gsvc.decoders.pace import Pace
from gsvc.decoders.refiners.registry import model_id

_log = logging.getLogger(__name__)


@typed
def encode_file(
    source: Place,
    target: Place,
    *,
    settings: EncoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    fps: float | None = None,
    audio: str = "opus",
    audio_bitrate: int | None = None,
    texts: bool = True,
    target_size: int | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> EncodeReport:
    """Encode a video file to a stream. The target appears only when it is complete.

    Args:
        source: A path that FFmpeg reads, a pattern of images ("in/*.png" or "in/%05d.png"), "-"
            for y4m on standard input, or an open binary file, of which all that is left is read
            first.
        target: A path, "-" for standard output, or an open binary file, which is written to as the
            stream is made and stays open.
        settings: How to encode; level 1 by default.
        start: Second of the source to begin at.
        frames: Most frames to encode; None for all.
        fps: Most frames a second to encode; None for all. Of a pattern of images its rate, 25 by
            default.
        audio: "opus" carries the sound, "none" drops it. Images and pipes have none.
        audio_bitrate: Bits per second of the sound, 6000 to 510000, mono below 18000; None takes
            16000 for mono and 24000 for stereo.
        texts: Carry title, chapters and subtitles.
        target_size: Bytes that the file may have at most, sound and texts included; the video is
            encoded up to four times to come near. Not with a rate or a quality in the settings.
        overwrite: Replace a target that exists.
        progress: Called at the beginning, while a group is coded, and after every packet.

    Returns:
        Size, rate and duration of the stream. A rate or a size missed by more than 5 %, or a
        quality by more than 10 %, is logged as a warning.

    Raises:
        InputError: The source cannot be read as video.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range, or the target does not end in ".gsv".
        MissingModelError: A scaffold layer needs a model that is not installed.
    """
    began = monotonic()
    if audio not in AUDIO_CODINGS:
        raise ConfigError(f"audio {audio!r}: choose one of {', '.join(AUDIO_CODINGS)}")
    refuse_same(source, target)
    settings, is_heard = settings or EncoderSettings(), audio == "opus"
    with local_path(source) as path:
        job = EncodeJob(
            path, settings, start, frames, fps, is_heard, audio_bitrate, texts, progress
        )
        if target_size is None:
            report = job.encode(create_stream(target, overwrite), shown(target), settings)
        else:
            with create_stream(target, overwrite) as file:
                data, report = encode_to_size(job, target_size, shown(target))
                file.write(data)
    for line in missed_goals(settings, report):
        _log.warning("%s", line)
    return replace(report, elapsed=monotonic() - began)


@typed
def decode_file(
    source: Place,
    target: Place,
    *,
    settings: DecoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    overwrite: bool = False,
    progress: Report | None = None,
    pace: Pace | None = None,
) -> DecodeReport:
    """Decode a stream to a video file. The target appears only when it is complete.

    Of a stream that is damaged after its first frames, these are written; then the error is raised,
    unless the settings conceal.

    Args:
        source: A path, of a stream or of what `mux` wrote, "-" for standard input, or an open
            binary file, of which all that is left is read.
        target: A container by its suffix, numbered images ("out/%05d.png"), or y4m ("-", a path
            ending in .y4m, or an open binary file, which is written to as frames come).
        settings: How to decode; one step of the default refiner by default.
        start: Second to begin at. The first frame decoded gets time 0.
        frames: Most frames to decode; None for all. With `start` or `frames`, only the groups
            of the frames asked for are decoded, and the source must be a file.
        limits: What the stream may ask for.
        overwrite: Replace a target that exists.
        progress: Called after every frame.
        pace: Decides where there is time for refiner and learned motion; None: always.

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
    refuse_same(source, target)
    with open_any(source) as file:
        beside, conceals = _is_container(target), settings.conceal
        portion = find_portion(file, start, frames, limits, is_container=beside, conceals=conceals)
        header = portion.header
        _warn_of_other_model(header.model_id, settings)
        output = open_writer(
            target,
            header.format,
            audio=portion.sound,
            texts=portion.texts if beside else NO_TEXTS,
            mark=mark_of(settings),
            overwrite=overwrite,
        )
        with Decoder(header, settings, limits, pace=pace) as decoder, output as writer:
            decoding = FileDecoding(decoder, writer, progress)
            decoding.write(portion)
        decoding.tell_damage(portion.damage, source, target)
        if not beside and (lost := " and ".join(_beside(header, portion.texts))):
            _log.warning("%s carries no %s: left out, use .mp4 or .mkv", written(target), lost)
    return DecodeReport(
        target=shown(target),
        width=header.format.width,
        height=header.format.height,
        frames=len(decoding.times),
        duration=float(duration(decoding.times, header.format)),
        steps=settings.steps,
        concealed=decoding.concealed,
        elapsed=monotonic() - began,
    )


def _beside(header: Header, texts: Texts) -> Iterator[str]:
    """What a stream has beside pictures, in words."""
    if header.audio:
        yield "sound"
    if texts.subtitles:
        yield "subtitles"
    if texts.chapters:
        yield "chapters"
    if texts.tags:
        yield "title or other tags"


def _is_container(target: Place) -> bool:
    """Whether more than pictures goes into the target."""
    if not isinstance(target, str | Path):
        return False
    name = str(target)
    is_y4m = name == STANDARD_OUTPUT or name.lower().endswith(".y4m")
    return not is_y4m and image_pattern(name) is None


def _warn_of_other_model(stream_model: bytes, settings: DecoderSettings) -> None:
    if settings.steps and stream_model not in (bytes(4), model_id(settings.backend)):
        _log.warning(
            "the stream was made for other weights of the refiner (%s): "
            "pictures may differ from the encoder's",
            stream_model.hex(),
        )
