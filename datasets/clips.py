"""A test clip in memory: what every codec codes and every metric compares with."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from gsvc.codec.frames import Picture


@dataclass(frozen=True)
class ClipFormat:
    """What a decoder is told beside the stream: sides in pixels, frames per second, number of frames."""

    width: int
    height: int
    frame_rate: Fraction
    frames: int


@dataclass(frozen=True)
class TestClip:
    """The source of a measurement: RGB uint8 pictures (H, W, 3) of one size, BT.709, full range."""

    name: str
    frames: Sequence[Picture] = field(repr=False)
    frame_rate: Fraction

    __test__ = False  # not a test case, whatever pytest thinks of the name

    @property
    def format(self) -> ClipFormat:
        """The clip without its pixels."""
        height, width = self.frames[0].shape[:2]
        return ClipFormat(width, height, self.frame_rate, len(self.frames))

    @cached_property
    def sha256(self) -> str:
        """Hash of the size and of every pixel."""
        return frames_sha256(self.frames)


def frames_sha256(frames: Sequence[Picture]) -> str:
    """SHA-256 over the shape and the bytes of every picture, as hexadecimal digits."""
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(repr(frame.shape).encode())
        digest.update(frame.tobytes())
    return digest.hexdigest()
