"""Encoding to a size: the bytes that a file may have at most, sound and texts included.

A size becomes a rate for the pictures: less the sound and the texts, over the duration. The video
is encoded a few times, each time at a corrected rate.
"""

import logging
from dataclasses import replace
from fractions import Fraction

from gsvc.codec.api.encode_job import AUTO_SIZE, SMALLEST_STILL, EncodeJob, suited
from gsvc.codec.api.encoder_settings import EncoderSettings, check_bitrate
from gsvc.codec.api.reports import EncodeReport
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import VideoFormat
from gsvc.codec.media import places, track_source
from gsvc.encoders.tuning import LEAST_BITRATE

_log = logging.getLogger(__name__)

_PASSES = 4
AIM, _ENOUGH = 0.985, 0.95
"""Shares of the size: the aim, and the least that is near enough."""
_SHRINKS = 0.7
"""Factor by which the sides of a single picture shrink if it still takes too much."""


def encode_to_size(
    job: EncodeJob, target: places.PathOrFile, size: int | None, rate: float | None, overwrite: bool
) -> EncodeReport:
    """Write the largest stream of at most `size` bytes, or `rate` in all, that few attempts make.

    A size that cannot be reached is logged as a warning, and the nearest stream written. Raises
    ConfigError for a size that sound and texts take by themselves, for one beside a rate or a
    quality, and for standard input; else as `encode` does.
    """
    if size is not None and rate is not None:
        raise ConfigError("a total bit rate and a target size: give one of them")
    size = size_at(job, rate or 0.0) if size is None else size
    with places.create_stream(target, overwrite) as file:
        data, report, above = nearest_stream(job, size, places.shown(target))
        _warn_of_miss(report, size, above, limits_told(job.settings))
        file.write(data)
    return report


def nearest_stream(
    job: EncodeJob, size: int, target: str
) -> tuple[bytes, EncodeReport, int | None]:
    """The stream of `encode_to_size`, its report, the least size above `size` of an attempt."""
    is_free = job.size in (None, AUTO_SIZE)
    found = _best_attempt(job, size, target)
    while is_free and job.is_still and found[1].size > size:
        shorter = int(_SHRINKS * min(found[1].width, found[1].height))
        if shorter < SMALLEST_STILL:
            break
        found = _best_attempt(replace(job, size=shorter), size, target)
    return found


def _best_attempt(job: EncodeJob, size: int, target: str) -> tuple[bytes, EncodeReport, int | None]:
    """The best of a few attempts, and the least size above."""
    job, bitrate, room = sized(job, size)
    tried: list[tuple[bytes, EncodeReport]] = []
    for _ in range(_PASSES):
        tried.append(job.encoded(replace(job.settings, bitrate=bitrate), target))
        report = tried[-1][1]
        # Where another rate made the same stream, there is no more, or no less.
        is_stuck = len(tried) > 1 and report.video_size == tried[-2][1].video_size
        if _ENOUGH * size <= report.size <= size or is_stuck:
            break
        bitrate = max(LEAST_BITRATE, bitrate * AIM * room / report.video_size)
    best = min(tried, key=lambda one: (one[1].size > size, abs(size - one[1].size)))
    return *best, min((one.size for _, one in tried if one.size > size), default=None)


def sized(job: EncodeJob, size: int) -> tuple[EncodeJob, float, int]:
    """For a stream of `size` bytes, the job with the rate of its sound, and what is left for
    pictures in bits per second and in bytes. Raises as `encode_to_size`."""
    _check_goals(job, size)
    seconds = job.seconds
    total = 8 * size / float(seconds)
    job = _without_sound(job, size, seconds)
    with job.open() as video:
        sound = job.audio_bitrate or SOUND[0] if job.sound and video.has_sound else 0
    if sound and total - sound < LEAST_BESIDE:
        _log.warning(
            "%s: sound leaves the pictures %.2g of %.3g kbit/s, with which they show nothing: "
            'take audio="none", or allow more',
            places.display_name(job.source),
            max(LEAST_BITRATE, total - sound) / 1000,
            total / 1000,
        )
    job = _with_sound_rate(suited(job, max(LEAST_BITRATE, total - sound), total), total)
    beside = job.bytes_beside(seconds)
    if size <= beside:
        lower = "lower the rate of the sound (--audio-bitrate), "
        raise ConfigError(
            f"sound and texts take {beside} of {size} bytes: {lower if sound > SOUND[0] else ''}"
            "leave it out (--audio none), or allow a larger file"
        )
    room = size - beside
    return job, max(LEAST_BITRATE, 8 * AIM * room / float(seconds)), room


def _check_goals(job: EncodeJob, size: int) -> None:
    if size < 1:
        raise ConfigError(f"a file of {size} bytes: allow more")
    goals = job.settings.bpp, job.settings.bitrate, job.settings.quality
    if any(goal is not None for goal in goals):
        raise ConfigError("a size to meet and a rate or quality beside it: give one of them")
    if job.settings.task is not None:
        raise ConfigError("a task sends no pictures, whose rate would make the size: leave it out")
    if places.is_read_once(job.source):
        raise ConfigError("a pipe can be read but once: meet a size with a file, or a rate")


SOUND = 6_000, 8_000, 12_000, 16_000
"""Bits per second of the sound in a file of a given rate, by the level of its pictures: mono."""
_STEREO_SHARE = 5
"""Sound is as usual, stereo where the source is, in files of so many times its rate."""
LEAST_BESIDE = 1_000
"""Bits per second of pictures that sound must leave, or be left out."""


def _without_sound(job: EncodeJob, size: int, seconds: Fraction) -> EncodeJob:
    rate = job.audio_bitrate or SOUND[0]
    total, least = 8 * size / float(seconds), rate + LEAST_BESIDE
    if not (job.sound and job.sound_may_go and total < least):
        return job
    with job.open() as video:
        has_sound = video.has_sound
    silent = replace(job, sound=False)
    if has_sound:
        heard = replace(job, audio_bitrate=rate)
        fits = rate < total and silent.bytes_beside(seconds) + heard.sound_bytes(seconds) < size
        _log.warning(
            "%s: without its sound, which takes %.3g kbit/s of %.3g (Opus takes %.3g at least) and "
            "is carried from %.3g in all, a file of %d bytes%s",
            places.display_name(job.source),
            rate / 1000,
            total / 1000,
            SOUND[0] / 1000,
            least / 1000,
            -(-least * seconds // 8),
            '; audio="opus" carries it here too' * fits,
        )
    return silent


def _with_sound_rate(job: EncodeJob, total: float) -> EncodeJob:
    """The job with the rate of its sound in a file of `total` bits per second, unless it has one:
    that of the highest level which the rest of the rate reaches."""
    if not job.sound or job.audio_bitrate is not None:
        return job
    with job.open() as video:
        return replace(job, audio_bitrate=sound_bitrate(job.settings, video.format, total))


def sound_bitrate(settings: EncoderSettings, video: VideoFormat, total: float) -> int | None:
    """Bits per second of the sound beside pictures, of `total` together; None: its usual rate."""
    if total >= _STEREO_SHARE * track_source.USUAL_STEREO:
        return None
    reached = [
        level
        for level, rate in enumerate(SOUND)
        if rate + LEAST_BITRATE <= total
        and replace(settings, bitrate=total - rate).chosen_level(video) >= level
    ]
    return SOUND[max(reached, default=0)]


def size_at(job: EncodeJob, total_bitrate: float) -> int:
    """Bytes of a stream of `total_bitrate` bits per second in all. Raises as `encode_to_size`."""
    check_bitrate(total_bitrate)
    _check_goals(job, 1)
    return int(total_bitrate * job.seconds / 8)


def _warn_of_miss(report: EncodeReport, size: int, above: int | None, limits: str) -> None:
    if report.size > size:
        _log.warning(
            "asked for %d bytes, got %d: about the least that this video takes, shrink it, lower "
            "its frame rate or leave out its sound for less",
            size,
            report.size,
        )
    elif report.size < _ENOUGH * size:
        why = f"about the most that this video takes{limits}"
        if above is not None:
            why = f"the nearest of a few attempts, another one made {above}"
        _log.warning("asked for %d bytes, got %d: %s", size, report.size, why)


def limits_told(settings: EncoderSettings) -> str:
    """What keeps a rate below what the video would take, and what to do; "" where nothing does."""
    given = {"max_packet_bytes": settings.max_packet_bytes, "max_bitrate": settings.max_bitrate}
    told = [f"{name}={value:.10g}" for name, value in given.items() if value is not None]
    return f" within {' and '.join(told)}, raise the limit for more" if told else ""
