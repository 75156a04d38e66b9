"""Encoding to a size: the rate that makes a file of so many bytes, found by encoding again."""

import io
import logging
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

from gsvc.codec.encode_job import EncodeJob
from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.input import STANDARD_INPUT, display_name
from gsvc.codec.reports import EncodeReport
from gsvc.codec.stream.audio import pack_audio
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.stream.texts import text_packets

_PASSES = 4
_AIM, _ENOUGH = 0.985, 0.95
"""Of the size: what is aimed at, and what is near enough below it."""
_LEAST_RATE = 100.0
"""Bits per second, where all else leaves less."""

_log = logging.getLogger(__name__)


def encode_to_size(job: EncodeJob, size: int, target: str) -> tuple[bytes, EncodeReport]:
    """The largest stream of at most `size` bytes that a few attempts make, and its report.

    A size that cannot be reached is logged as a warning, and the nearest stream returned. Raises
    ConfigError for a size that sound and texts take by themselves, for one beside a rate or a
    quality, and for standard input; else as `encode_file` does.
    """
    room, seconds = _room(job, size)
    bitrate = _rate(room, seconds)
    tried: list[tuple[bytes, EncodeReport]] = []
    for _ in range(_PASSES):
        file = io.BytesIO()
        settings = replace(job.settings, bitrate=bitrate)
        report = job.encode(nullcontext(file), target, settings)
        tried.append((file.getvalue(), report))
        if _ENOUGH * size <= report.size <= size or _is_stuck(tried):
            break
        bitrate *= _AIM * room / report.video_size
    found = min(tried, key=lambda one: (one[1].size > size, abs(size - one[1].size)))
    _tell(found[1], size)
    return found


def rate_for(job: EncodeJob, size: int) -> float:
    """Bits per second of the pictures in a stream of `size` bytes. Raises as `encode_to_size`."""
    return _rate(*_room(job, size))


def _rate(room: int, seconds: float) -> float:
    return max(_LEAST_RATE, 8 * _AIM * room / seconds)


def _room(job: EncodeJob, size: int) -> tuple[int, float]:
    """Bytes of the pictures in a stream of `size` bytes, and seconds of the video."""
    _check(job, size)
    seconds, beside = _known(job)
    if size <= beside:
        raise ConfigError(
            f"sound and texts take {beside} of {size} bytes: lower the rate of the sound, leave "
            "it out, or allow a larger file"
        )
    return size - beside, seconds


def _check(job: EncodeJob, size: int) -> None:
    if size < 1:
        raise ConfigError(f"a file of {size} bytes: allow more")
    goals = job.settings.bpp, job.settings.bitrate, job.settings.quality
    if any(goal is not None for goal in goals):
        raise ConfigError("a size to meet and a rate or quality beside it: give one of them")
    if job.settings.task is not None:
        raise ConfigError("a task sends no pictures, whose rate would make the size: leave it out")
    if str(job.source) == STANDARD_INPUT:
        raise ConfigError("standard input can be read but once: meet a size with a file, or a rate")


def _known(job: EncodeJob) -> tuple[float, int]:
    """Seconds of the video, and the bytes of sound and texts in its stream."""
    with job.open() as video:
        texts = text_packets(job.beside(video))
        if video.seconds is None:
            count = sum(1 for _ in video)
            end = Fraction(count) / video.format.frame_rate
        else:
            end = video.seconds
    if not end:
        raise InputError(f"{display_name(job.source)}: has no length: encode it at a rate")
    sound = (Packet(PacketType.AUDIO, 0, pack_audio(c)) for c in job.sound_until(end))
    return float(end), sum(len(packet.to_bytes()) for packet in (*texts, *sound))


def _is_stuck(tried: list[tuple[bytes, EncodeReport]]) -> bool:
    """Whether another rate made the same stream: there is no more, or no less."""
    return len(tried) > 1 and tried[-1][1].video_size == tried[-2][1].video_size


def _tell(report: EncodeReport, size: int) -> None:
    if report.size > size:
        _log.warning(
            "asked for %d bytes, got %d: about the least that this video takes, shrink it, lower "
            "its frame rate or leave out its sound for less",
            size, report.size,
        )  # fmt: skip
    elif report.size < _ENOUGH * size:
        _log.warning(
            "asked for %d bytes, got %d: about the most that this video takes",
            size, report.size,
        )  # fmt: skip
