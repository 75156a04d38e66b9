"""What to tell of a rate or a quality that was asked for and not reached."""

from collections.abc import Iterator

from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.reports import EncodeReport

_RATE_MISS, _QUALITY_MISS = 0.05, 0.1
"""In proportion to what was asked: a rate is promised within the first."""


def missed_goals(settings: EncoderSettings, report: EncodeReport) -> Iterator[str]:
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
        return (
            f"the least that this video takes is about {about}, "
            "shrink it or lower its frame rate for less"
        )
    if settings.max_bitrate is not None or settings.max_packet_bytes is not None:
        return "the limit on a second or on a packet keeps it there, raise the limit for more"
    return f"the most that this video takes is about {about}, enlarge it for more"
