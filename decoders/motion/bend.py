"""What the scaffold adds to the motion that the decoder estimates."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.motion.estimation import Flow


@dataclass(frozen=True)
class Bend:
    """How motion at a frame deviates from motion linear in time between the coded pictures."""

    vectors: Flow
    """Added to the motion towards both pictures: float32 (H, W, 2), in pixels."""
    side: NDArray[np.float32] | None = None
    """The picture to draw from: float32 (H, W), -1 (right) to 1 (left); 0: the nearer one."""

    def __add__(self, other: "Bend") -> "Bend":
        sides = [side for side in (self.side, other.side) if side is not None]
        return Bend(self.vectors + other.vectors, np.add.reduce(sides) if sides else None)


class MotionSource(Protocol):
    """The motion that some layers add in one interval; see `gsvc.decoders.motion.sources`."""

    def bend(self, offset: int) -> Bend | None:
        """The motion added in the frame `offset` frames after the left picture; None for none."""
        ...
