"""Scene cuts: a new scene begins a group of its own."""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import gray
from gsvc.encoders.tuning import CUT_RATIO, LEAST_CUT, LEAST_SPREAD, SURE_CUT

_THUMBNAIL = (32, 18)


class CutDetector:
    """Tells, frame by frame, whether a new scene begins.

    Both structure and histogram must change: a pan changes only the first, a flash mostly the
    second. A very large change is a cut whatever the histogram.
    """

    def __init__(self) -> None:
        self._last: NDArray[np.float32] | None = None
        self._usual = 0.0

    def __call__(self, picture: Picture) -> bool:
        """True when `picture` (RGB uint8) does not continue the one before."""
        small = cv2.resize(gray(picture), _THUMBNAIL, interpolation=cv2.INTER_AREA)
        now = small.astype(np.float32)
        last, self._last = self._last, now
        if last is None:
            return False
        change = float(np.abs(now - last).mean())
        spread = float(np.abs(np.sort(now, axis=None) - np.sort(last, axis=None)).mean())
        is_cut = change > max(LEAST_CUT, CUT_RATIO * self._usual) and (
            change > SURE_CUT or spread > LEAST_SPREAD
        )
        self._usual = 0.0 if is_cut else 0.8 * self._usual + 0.2 * change
        return is_cut
