"""What decides the content of prepared shards."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from gsvc.codec.bitstream.errors import ConfigError

MEASURES = {
    "motion": "mean displacement, in pixels a frame at the prepared size",
    "sharpness": "variance of the Laplacian of luma",
    "luma": "mean level, 0 to 255",
    "clipped": "share of pixels that are black or white",
    "letterbox": "share of the picture in black borders",
    "text": "share of the picture in what looks like lines of text",
    "faces": "most faces in a frame",
}
"""Measures of a clip that `Limits` are for, and their units."""

Limits = Mapping[str, tuple[float, float]]
"""Least and most of measures, by name."""

USUAL_LIMITS: dict[str, tuple[float, float]] = {
    "motion": (0.05, 40.0),
    "sharpness": (15.0, math.inf),
    "luma": (16.0, 239.0),
    "clipped": (0.0, 0.5),
    "letterbox": (0.0, 0.02),
    "text": (0.0, 0.2),
}


@dataclass(frozen=True)
class Settings:
    """How sources become samples."""

    kind: str = "pictures"
    """Of samples, as of packs."""
    lines: int = 288
    """Short side of the pictures that are coded; smaller sources are set aside."""
    frames: int = 33
    """Of a clip; a scene gives as many clips as it holds."""
    most_clips: int = 64
    """Of one source, spread over it."""
    lambdas: tuple[float, ...] = (300.0, 90.0, 30.0, 9.0)
    """Every clip is encoded with each."""
    preset: str = "fast"
    """Of the encoder."""
    extract: tuple[str, ...] = ("masks", "pose", "faces", "flow")
    limits: dict[str, tuple[float, float]] = field(default_factory=lambda: dict(USUAL_LIMITS))
    nearest: int = 11
    """Bits of 192 in which clips may differ and still count as the same."""
    shard_clips: int = 64
    seed: int = 0

    def digest(self) -> str:
        """Equal for equal settings."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def read_limits(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The usual limits, with those of `texts`, NAME=LEAST:MOST, in their place.

    Raises ConfigError for what is none.
    """
    limits = dict(USUAL_LIMITS)
    for text in texts:
        name, _, ends = text.partition("=")
        least, colon, most = ends.partition(":")
        if name not in MEASURES or not colon:
            raise ConfigError(
                f"limit {text!r}: write NAME=LEAST:MOST, either may be left out; NAME is one of "
                f"{', '.join(MEASURES)}"
            )
        try:
            limits[name] = float(least or -math.inf), float(most or math.inf)
        except ValueError as error:
            raise ConfigError(f"limit {text!r}: {error}") from error
    return limits
