"""Rendering by learned motion: frames drawn from both coded pictures as RIFE finds them.

The scaffold's motion is made for the decoder's own estimate by DIS. Here it is added to RIFE's,
which is linear in time as that is.
"""

from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.learned.rife import LearnedMotion, RifePair, loaded_rife, rife_file
from gsvc.decoders.motion.sources import SOURCES, total_bend
from gsvc.decoders.reconstruction import MakeRenderer
from gsvc.decoders.rendering import IntervalRenderer


class LearnedRenderer:
    """Renders the frames between two coded pictures by RIFE; see `IntervalRenderer`."""

    def __init__(
        self,
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        drawn: tuple[Picture, Picture],
        *,
        device: str = "cpu",
    ) -> None:
        """As of `IntervalRenderer`; `device`: where RIFE runs."""
        self._left, self._right, self._drawn = left, right, drawn
        self._interval, self._device = interval, device
        geometry = Geometry(left.shape[1], left.shape[0])
        self._sources = [make(interval, before, geometry) for make in SOURCES]
        self._plain = IntervalRenderer(left, right, interval, before, drawn)

    @cached_property
    def _pair(self) -> RifePair:
        return loaded_rife(self._device).pair(self._left, self._right)

    def picture(self, offset: int) -> Picture:
        """See `IntervalRenderer.picture`. Raises as `load_rife` and `RifePair.motion`."""
        if self._interval.dissolves:
            return self._plain.picture(offset)
        return self._motion(offset).drawn(*self._drawn)

    def confidence(self, offset: int) -> NDArray[np.float32]:
        """See `IntervalRenderer.confidence`."""
        return self._plain.confidence(offset)

    def _motion(self, offset: int) -> LearnedMotion:
        motion = self._pair.motion(offset / self._interval.length)
        bend = total_bend(self._sources, offset)
        if bend is None:
            return motion
        side = motion.side if bend.side is None else np.clip(motion.side + bend.side, 0, 1)
        return LearnedMotion(motion.to_left + bend.vectors, motion.to_right + bend.vectors, side)


def find_renderer(motion: str, device: str) -> MakeRenderer:
    """What draws between two coded pictures: `motion` as of `DecoderSettings`.

    A network is loaded when the first frame needs it. Raises as `rife_file`.
    """
    if motion == "dis":
        return IntervalRenderer
    rife_file()
    return partial(LearnedRenderer, device=device)
