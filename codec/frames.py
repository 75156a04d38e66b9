"""Frames and the format of a video: the values that pass between every stage."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError

Picture = NDArray[np.uint8]
"""RGB, shape (height, width, 3), dtype uint8, 0-255, full range, in the video's own matrix and transfer."""

UNSPECIFIED = 2
"""Code point "unspecified" of ITU-T H.273 for primaries, transfer and matrix."""


@dataclass(frozen=True)
class Color:
    """Colour description, code points of ITU-T H.273 (0-31). Unspecified values stay unspecified."""

    primaries: int = UNSPECIFIED
    transfer: int = UNSPECIFIED
    matrix: int = UNSPECIFIED
    full_range: bool = False

    def resolved_matrix(self, height: int) -> int:
        """The matrix to convert with: when unspecified, BT.601 (6) up to 576 lines, else BT.709 (1)."""
        if self.matrix != UNSPECIFIED:
            return self.matrix
        return 6 if height <= 576 else 1


@dataclass(frozen=True)
class VideoFormat:
    """What is constant over a video. Sizes are display sizes in pixels, after rotation.

    `frame_rate` is nominal (frames per second); the true times are the frames' `pts`.
    """

    width: int
    height: int
    time_base: Fraction
    frame_rate: Fraction
    pixel_aspect: Fraction = Fraction(1)
    color: Color = Color()

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ConfigError(
                f"picture size {self.width}x{self.height}: both sides must be at least 1"
            )
        if self.time_base <= 0 or self.frame_rate <= 0 or self.pixel_aspect <= 0:
            raise ConfigError("time base, frame rate and pixel aspect must be positive")


@dataclass(frozen=True)
class Frame:
    """One picture and its presentation time in units of the format's `time_base`; `concealed`: its packet did not
    arrive, and it was made from what did."""

    pixels: Picture
    pts: int
    concealed: bool = False


@dataclass(frozen=True)
class AudioChunk:
    """A run of consecutive Opus packets (RFC 6716).

    `pts` is the time of the first packet in 1/48000 s, 0 = the first video frame (may be negative);
    `packet_samples` the duration of one packet in 1/48000 s; `pre_skip` the samples to drop at the very start.
    """

    pts: int
    channels: int
    packet_samples: int
    pre_skip: int
    packets: tuple[bytes, ...]
