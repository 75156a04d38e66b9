"""Encoding a file as a command line says, and its report in words and in JSON."""

from argparse import Namespace
from dataclasses import asdict, replace

from gsvc.codec.command.arguments import settings_of
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.reports import EncodeReport, Report
from gsvc.codec.scaffold.tools import TOOLS
from gsvc.codec.times import shown_time
from gsvc.decoders.analysis.finders import AUTO, OWN
from gsvc.decoders.analysis.types import Detector


def encode_one(
    options: Namespace, source: str, target: str, progress: Report | None = None
) -> EncodeReport:
    """Encode a file as the options say."""
    from gsvc.codec.files import encode_file  # late: --help and usage errors do not wait for FFmpeg

    return encode_file(
        source,
        target,
        settings=settings_from(options),
        start=options.start,
        frames=options.frames,
        fps=options.fps,
        audio=options.audio,
        texts=not options.no_texts,
        audio_bitrate=options.audio_bitrate and round(options.audio_bitrate),
        target_size=options.target_size,
        overwrite=options.overwrite,
        progress=progress,
    )


def settings_from(options: Namespace) -> EncoderSettings:
    """The settings of a command line. Raises ConfigError."""
    settings = settings_of(EncoderSettings, options, detector=_detector(options))
    off = [layer for layer in TOOLS if getattr(options, f"no_{layer}")]
    return replace(settings, tools=settings.chosen_tools().without(*off)) if off else settings


def _detector(options: Namespace) -> str | Detector:
    """The name of one that gsvc brings, or one of others."""
    name: str | None = options.detector
    if name is not None and not options.objects and options.task is None:
        raise ConfigError("--detector looks for what --objects and --task send: add one of them")
    if name is None or name in OWN:
        return name or AUTO
    from gsvc.decoders.analysis.detectors import named_detector

    return named_detector(name)


def as_json(report: EncodeReport) -> dict[str, object]:
    """The report's values by name."""
    return {**asdict(report), "bpp": report.bpp, "bitrate": report.bitrate}


def as_line(report: EncodeReport) -> str:
    """The report for people."""
    beside = {"sound": report.audio_size, "texts": report.text_size}
    also = "".join(f" + {size} bytes of {what}" for what, size in beside.items() if size)
    alone = f" without {' and '.join(w for w, size in beside.items() if size)}" if also else ""
    reached = ""
    if report.measured_quality is not None:
        reached = f"distance {report.measured_quality:.3f} (measured), "
    elif report.estimated_quality is not None:
        reached = f"distance {report.estimated_quality:.3f} by estimate, --score measures it, "
    return (
        f"{report.target}: {report.frames} frames, level {report.level}, {reached}"
        f"{report.video_size} bytes{also}, {report.bpp:.5f} bpp, "
        f"{report.bitrate / 1000:.2f} kbit/s{alone}, in {shown_time(report.elapsed)}"
    )
