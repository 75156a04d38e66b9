"""Drives a refiner that sees windows: frames wait until theirs is full, or cannot get longer.

A window takes whole intervals, as many as fit, and so ends at a key picture, with which the next
one begins again. Only an interval longer than a window is cut. No window crosses a scene cut, and
frames that were made up for lost packets pass by. `seams` joins windows that share a frame.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Frame, Picture
from gsvc.decoders.kept_windows import KeptWindows
from gsvc.decoders.reconstruction import DecodedInterval
from gsvc.decoders.refiners.base import WindowRefiner
from gsvc.decoders.seams import joined
from gsvc.decoders.timeline import DrawnFrame

_STEP = 8
"""Windows have a multiple of this many frames, and one more: so video autoencoders take them."""


@dataclass(frozen=True)
class _Rendering:
    """A frame of the window."""

    picture: Picture
    confidence: NDArray[np.float32]
    is_key: bool
    frame: Frame | None
    """None where an earlier window has given it."""


class Windows:
    """Gathers frames in windows and gives them restored, at most `refiner.delay` frames late."""

    def __init__(
        self, refiner: WindowRefiner, steps: int, seed: int, kept: KeptWindows | None = None
    ) -> None:
        """`kept`: where restored windows are, and are put."""
        self._refiner, self._steps, self._seed, self._kept = refiner, steps, seed, kept
        self.reset()

    @property
    def delay(self) -> int:
        """Frames by which output may be late."""
        return self._refiner.delay

    def reset(self) -> None:
        """Forget the frames that wait."""
        self._window: list[_Rendering] = []
        self._interval: DecodedInterval | None = None
        self._last: Picture | None = None
        """The last frame shown, where the next window begins with it."""

    def frames(self, drawn: Iterable[DrawnFrame]) -> Iterator[Frame]:
        """Take frames in; gives those that need not wait any longer."""
        for one in drawn:
            if one.interval is None or one.frame.concealed:
                yield from self.flush()
                yield one.frame
            else:
                yield from self._take(one.frame, one.interval, one.number)

    def flush(self) -> Iterator[Frame]:
        """The frames that wait. What comes then begins a window."""
        yield from self._ended()
        self._last = None

    def _ended(self) -> Iterator[Frame]:
        """The frames that wait. What comes then may go on from the last one."""
        if any(rendering.frame for rendering in self._window):
            yield from self._restored()
        self._window, self._interval = [], None

    def _take(self, frame: Frame, interval: DecodedInterval, number: int) -> Iterator[Frame]:
        if interval is not self._interval and not self._fits(interval, number):
            yield from self._ended() if self._goes_on(interval) else self.flush()
        if not self._window and number == 1:
            self._window = _context(interval)
        self._interval = interval
        picture, confidence = frame.pixels, interval.confidence(number)
        self._window.append(_Rendering(picture, confidence, interval.is_key(number), frame))
        if len(self._window) > self._refiner.delay:
            yield from self._restored()
            self._window = [replace(self._window[-1], frame=None)]

    def _fits(self, interval: DecodedInterval, number: int) -> bool:
        """Whether the window can go on with this interval, from a frame of it to its end."""
        size = len(self._window) + interval.interval.length - number + 1
        return self._goes_on(interval) and size <= self._refiner.delay + 1

    def _goes_on(self, interval: DecodedInterval) -> bool:
        """Whether it begins with the key picture that the last one ended in."""
        return self._interval is not None and interval.start is self._interval.key

    def _restored(self) -> Iterator[Frame]:
        """The frames of the window, its last one repeated up to a length that a refiner takes."""
        window = self._window
        padded = window + window[-1:] * (-(len(window) - 1) % _STEP)
        given = (
            np.stack([rendering.picture for rendering in padded]),
            {n: rendering.picture for n, rendering in enumerate(window) if rendering.is_key},
            np.stack([rendering.confidence for rendering in padded]),
        )
        restore = partial(self._refiner.restore, *given, steps=self._steps, seed=self._seed)
        pictures = self._kept.restored(*given, restore) if self._kept else restore()
        pictures = pictures[: len(window)]
        if self._last is not None and window[0].frame is None:
            pictures = list(joined(self._last, pictures))
        self._last = pictures[-1]
        for rendering, picture in zip(window, pictures, strict=True):
            if rendering.frame:
                pasted = rendering.is_key and self._refiner.pastes_keys
                pixels = rendering.picture if pasted else picture
                yield replace(rendering.frame, pixels=pixels)


def _context(interval: DecodedInterval) -> list[_Rendering]:
    """The key picture that an interval goes on from, which was shown before."""
    if interval.start is None or interval.start.stands_in:
        return []
    picture = interval.start.shown
    return [_Rendering(picture, np.ones(picture.shape[:2], np.float32), True, None)]
