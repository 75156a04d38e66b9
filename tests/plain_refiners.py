"""Refiners that change nothing, as a user would write them: for tests of what drives a refiner."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc import Picture
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.refiner import KeyRefiner, WindowRefiner


class Window(NamedTuple):
    """What a window refiner was given."""

    rendering: NDArray[np.uint8]
    keys: Mapping[int, Picture]
    confidence: NDArray[np.float32]


class PlainKeys(KeyRefiner):
    """Shows key pictures as they are decoded."""

    def refine(self, key: Keyframe, *, steps: int, seed: int) -> Picture:
        """See `KeyRefiner.refine`."""
        return key.picture


class OneKey(PlainKeys):
    """Shows the first key picture of a process; another one takes for ever.

    Then a file `drawing` appears in the current folder.
    """

    _has_shown = False

    def refine(self, key: Keyframe, *, steps: int, seed: int) -> Picture:
        """See `KeyRefiner.refine`."""
        if OneKey._has_shown:
            Path("drawing").touch()
            time.sleep(3600)
        OneKey._has_shown = True
        return super().refine(key, steps=steps, seed=seed)


class PlainWindows(WindowRefiner):
    """Shows renderings as they are, and notes what it was given."""

    delay = 16
    seen: ClassVar[list[Window]] = []

    def restore(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        *,
        steps: int,
        seed: int,
    ) -> Sequence[Picture]:
        """See `WindowRefiner.restore`."""
        self.seen.append(Window(rendering, keys, confidence))
        return list(rendering)


class UnevenWindows(PlainWindows):
    """Shows each window in a light of its own: the second, the fourth ... are brighter."""

    STEP = 40

    def restore(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        *,
        steps: int,
        seed: int,
    ) -> Sequence[Picture]:
        """See `WindowRefiner.restore`."""
        super().restore(rendering, keys, confidence, steps=steps, seed=seed)
        return list(rendering // 2 + np.uint8(self.STEP * (len(self.seen) % 2)))
