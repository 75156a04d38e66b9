"""A run of frames as a decoder gets it: its coded pictures, and the frames drawn between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.training.footage import FrameSource


class Drawn(Protocol):
    """Draws the frames between two coded pictures; `number` counts from the one before."""

    def picture(self, number: int) -> Picture:
        """The frame as it is rendered, RGB uint8 (H, W, 3)."""

    def confidence(self, number: int) -> NDArray[np.float32]:
        """How far motion there and back agrees, float32 (H, W), 0 to 1."""


@dataclass(frozen=True)
class CodedPicture:
    """A coded picture of a run."""

    frame: int
    """Its index in the run."""
    key: Keyframe
    """As decoded, with what its coding was."""
    layer: int = 0
    """Temporal layer; 0: key pictures."""


@dataclass(frozen=True)
class Gap:
    """The frames between two coded pictures."""

    before: CodedPicture
    after: CodedPicture
    drawn: Drawn

    @property
    def length(self) -> int:
        """Frames from one picture to the other."""
        return self.after.frame - self.before.frame

    def picture(self, number: int) -> Picture:
        """A frame from the picture before (0) to the one after, as it is shown without a refiner,
        RGB uint8 (H, W, 3)."""
        ends = {0: self.before, self.length: self.after}
        return ends[number].key.picture if number in ends else self.drawn.picture(number)

    def confidence(self, number: int) -> NDArray[np.float32]:
        """As of `Drawn`; 1 at the coded pictures."""
        if number in (0, self.length):
            return np.ones(self.before.key.picture.shape[:2], np.float32)
        return self.drawn.confidence(number)


@dataclass(frozen=True)
class CodedRun:
    """A run of frames, coded and decoded."""

    truth: FrameSource
    pictures: Sequence[CodedPicture]
    gaps: Sequence[Gap]
