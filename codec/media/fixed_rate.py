"""Files of one frame rate: they cannot carry times of their own."""

import logging
from fractions import Fraction

from gsvc.codec.frames import VideoFormat

_NEAR = Fraction(1, 4)
"""Of a frame: what the rounding of times to a container's ticks may come to."""

_log = logging.getLogger(__name__)


class FixedRate:
    """Notices the first frame that a file of a fixed rate shows at a wrong time, and warns."""

    def __init__(self, target: str, form: VideoFormat) -> None:
        self._target = target
        self._scale = form.time_base * form.frame_rate
        self._is_told = False

    def check(self, pts: int, number: int) -> None:
        """A frame with this time, in ticks, becomes the one of this number."""
        if self._is_told or abs(pts * self._scale - number) <= _NEAR:
            return
        self._is_told = True
        _log.warning(
            "%s: has one frame rate, so the frames' own times are lost: use .mp4 or .mkv",
            self._target,
        )
