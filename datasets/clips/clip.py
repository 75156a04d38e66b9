"""A test clip in memory: the source of codecs and the reference of metrics."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from gsvc.codec.bitstream.frames import Picture


@dataclass(frozen=True)
class ClipFormat:
    """What a decoder is told beside the stream."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    frame_rate: Fraction
    """Frames per second."""
    frames: int
    """Their number."""


@dataclass(frozen=True)
class TestClip:
    """A named sequence of RGB uint8 pictures (H, W, 3) of one size, BT.709, full range."""

    name: str
    frames: Sequence[Picture] = field(repr=False)
    frame_rate: Fraction

    __test__ = False  # tells pytest that this is no test case

    @property
    def format(self) -> ClipFormat:
        """The clip without its pixels."""
        height, width = self.frames[0].shape[:2]
        return ClipFormat(width, height, self.frame_rate, len(self.frames))

    @cached_property
    def sha256(self) -> str:
        """Hash of the size and of all pixels."""
        return frames_sha256(self.frames)


def frames_sha256(frames: Sequence[Picture]) -> str:
    """SHA-256 of the shapes and bytes of all pictures, as hexadecimal digits."""
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(repr(frame.shape).encode())
        digest.update(frame.tobytes())
    return digest.hexdigest()
