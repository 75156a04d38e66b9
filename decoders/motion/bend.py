"""What the scaffold says about motion, beside the decoder's own estimate."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.motion.estimation import Flow


@dataclass(frozen=True)
class Bend:
    """How motion at a frame differs from the even motion between the coded pictures."""

    vectors: Flow
    """Added to the motion towards both pictures: float32 (H, W, 2), pixels."""
    side: NDArray[np.float32] | None = None
    """Which picture to draw from: float32 (H, W), -1 (right) to 1 (left), 0 the nearer one."""


class MotionSource(Protocol):
    """Some layers' part in the motion between two coded pictures; see `gsvc.decoders.motion.sources`."""

    def bend(self, offset: int) -> Bend | None:
        """The part in the frame `offset` frames after the left picture; None: the layers are silent."""
        ...
