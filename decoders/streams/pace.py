"""Pace: whether there is time for a decoder's networks, asked picture by picture."""

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.scaffold import Interval, Sample
from gsvc.decoders.interpolation.rendering import IntervalRenderer, MakeRenderer, Renderer
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.streams.reconstruction import Refine

RefineIn = Callable[[Keyframe, int], Picture]
"""Restores a keyframe in a number of steps."""
REFINING, MOTION = "refining", "motion"
"""Works that a pace decides on: restoring a keyframe, learned motion up to the next one."""


class Pace(Protocol):
    """Decides what a decoder has time for."""

    def may(self, work: str) -> bool:
        """Whether there is time for the next `REFINING` or `MOTION`: asked once for each."""
        ...

    def took(self, work: str, seconds: float) -> None:
        """What a part of such work took."""
        ...


@runtime_checkable
class StepPace(Pace, Protocol):
    """A pace that may also shorten a refiner's loop."""

    def steps(self, most: int) -> int:
        """How many of `most` steps there is time for, 1 or more: asked after `may` said yes."""
        ...


def paced_refine(refine: RefineIn, steps: int, pace: Pace) -> Refine:
    """In so many steps, or in fewer, where there is time for them; else the decoded picture."""

    def refine_in_time(key: Keyframe) -> Picture:
        if not pace.may(REFINING):
            return key.picture
        taken = pace.steps(steps) if isinstance(pace, StepPace) else steps
        return _timed(pace, REFINING, lambda: refine(key, taken))

    return refine_in_time


def paced_motion(make: MakeRenderer, pace: Pace) -> MakeRenderer:
    """The same where there is time for it; else motion is what `IntervalRenderer` finds."""

    def make_in_time(
        left: Picture,
        right: Picture,
        interval: Interval,
        before: Sample | None,
        drawn: tuple[Picture, Picture],
    ) -> Renderer:
        if not pace.may(MOTION):
            return IntervalRenderer(left, right, interval, before, drawn)
        return _TimedRenderer(make(left, right, interval, before, drawn), pace)

    return make_in_time


class _TimedRenderer:
    """A renderer whose pictures' times are told."""

    def __init__(self, renderer: Renderer, pace: Pace) -> None:
        self._renderer, self._pace = renderer, pace

    def picture(self, offset: int) -> Picture:
        return _timed(self._pace, MOTION, lambda: self._renderer.picture(offset))

    def confidence(self, offset: int) -> NDArray[np.float32]:
        return self._renderer.confidence(offset)


def _timed(pace: Pace, work: str, make: Callable[[], Picture]) -> Picture:
    began = time.monotonic()
    made = make()
    pace.took(work, time.monotonic() - began)
    return made
