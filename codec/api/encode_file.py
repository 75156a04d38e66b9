"""`encode`: one call from a video file to a complete stream."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

from gsvc.codec.api.encode_job import EncodeJob, suited
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.api.reports import EncodeReport, Report
from gsvc.codec.api.target_size import encode_to_size, limits_told
from gsvc.codec.bitstream.audio_and_text import AUDIO_CODINGS
from gsvc.codec.bitstream.errors import ConfigError, typed
from gsvc.codec.media import places
from gsvc.codec.media.video_reader import Size

_log = logging.getLogger(__name__)


@typed
def encode(
    source: places.PathOrFile,
    target: places.PathOrFile,
    *,
    settings: EncoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    fps: float | None = None,
    audio: str | None = None,
    audio_bitrate: int | None = None,
    texts: bool = True,
    deinterlace: bool = False,
    size: Size | str | None = None,
    target_size: int | None = None,
    total_bitrate: float | None = None,
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
        audio: "opus" carries the sound, "none" drops it. None carries it unless a size or a total
            rate leaves less than 1 kbit/s beside it. Images and pipes have none.
        audio_bitrate: Bits per second of the sound, 6000 to 510000, mono below 18000; None takes
            16000 for mono and 24000 for stereo, or its share of a size or a total rate.
        texts: Carry title, chapters and subtitles.
        deinterlace: Draw whole pictures of interlaced video, which else is encoded as it is.
        size: Scale larger pictures down to so many pixels of the shorter side, or to a width and
            height; "auto" chooses size and frame rate by the rate; "source" keeps both. None keeps
            them unless a rate is far too low for them. The log tells what was chosen.
        target_size: Bytes that the file may have at most, sound and texts included; the video is
            encoded up to four times to come near. Not with a rate or a quality in the settings.
            Sound takes 6000, 8000, 12000 or 16000 bits per second of it by the level that the rest
            reaches, unless `audio_bitrate` says more.
        total_bitrate: The same as bits per second of the whole file.
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
    if audio not in (None, *AUDIO_CODINGS):
        raise ConfigError(f"audio {audio!r}: choose one of {', '.join(AUDIO_CODINGS)}")
    places.refuse_same(source, target)
    settings, is_heard = settings or EncoderSettings(), audio != "none"
    with places.local_path(source) as path:
        job = EncodeJob(
            path,
            settings,
            start,
            frames,
            fps,
            is_heard,
            audio_bitrate,
            texts,
            progress,
            deinterlace,
            size,
            audio is None,
        )
        if target_size is None and total_bitrate is None:
            job, name = suited(job, settings.bitrate), places.shown(target)
            report = job.encode(places.create_stream(target, overwrite), name, settings)
        else:
            report = encode_to_size(job, target, target_size, total_bitrate, overwrite=overwrite)
    for line in target_warnings(settings, report):
        _log.warning("%s", line)
    return replace(report, elapsed=monotonic() - began)


_RATE_MISS, _QUALITY_MISS = 0.05, 0.1
"""Relative misses that trigger a warning: rate, which is promised to be met, and quality."""


def target_warnings(settings: EncoderSettings, report: EncodeReport) -> Iterator[str]:
    """A line for each goal of `settings` that the stream of `report` missed."""
    if settings.bitrate is not None:
        asked, got, unit = settings.bitrate / 1000, report.bitrate / 1000, "kbit/s"
    else:
        asked, got, unit = settings.bpp or 0.0, report.bpp, "bits per pixel"
    if asked and abs(got / asked - 1) > _RATE_MISS:
        yield f"asked for {asked:.4g} {unit}, got {got:.4g}: {_why(settings, got, got > asked)}"
    quality, reached = settings.quality, report.estimated_quality
    if quality is not None and reached is not None and abs(reached / quality - 1) > _QUALITY_MISS:
        end = "nearest" if reached > quality else "farthest"
        yield (
            f"asked for a distance of {quality:.3g}, got {reached:.3f} by the encoder's estimate: "
            f"about the {end} that it comes to with this video"
        )


def _why(settings: EncoderSettings, got: float, is_above: bool) -> str:
    """Why the rate is not the one asked for, and what to do."""
    if settings.low_delay:
        return "low delay nears a rate from one four seconds to the next, look-ahead meets it"
    about = f"{float(f'{got:.2g}'):g}"  # 3500, not 3.5e+03
    if is_above:
        how = 'shrink it or lower its frame rate for less, as size="auto" does'
        return f"the least that this video takes is about {about}, {how}"
    if limits := limits_told(settings):
        return f"about the most that this video takes{limits}"
    return f"the most that this video takes is about {about}, enlarge it for more"
