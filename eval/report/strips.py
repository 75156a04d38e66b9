"""Motion on paper: successive frames of the part of a clip where its motion differs most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import gray

WINDOW, LENGTH = 112, 8
"""Side of the part of a frame, in pixels, and how many frames."""


@dataclass(frozen=True)
class Place:
    """Where and when a strip is cut."""

    first: int
    """Its first frame."""
    top: int
    left: int
    side: int = WINDOW
    """Of the square that is cut out, in pixels."""

    def cut(self, frames: Sequence[Picture]) -> list[Picture]:
        """The parts of the frames, at most `LENGTH` of them; smaller ones enlarged."""
        rows = slice(self.top, self.top + self.side)
        columns = slice(self.left, self.left + self.side)
        parts = [frame[rows, columns] for frame in frames[self.first : self.first + LENGTH]]
        return parts if self.side == WINDOW else [_enlarged(part) for part in parts]


def worst_place(
    ours: Sequence[Picture], source: Sequence[Picture], start: int = 0, end: int | None = None
) -> Place:
    """Where our changes of luma from frame to frame differ most from the source's.

    `start`, `end`: only among these frames.
    """
    end = len(source) if end is None else end
    worst, place = -1.0, Place(start, 0, 0)
    height, width = source[0].shape[:2]
    window = min(WINDOW, height), min(WINDOW, width)
    both = zip(_changes(ours[start:end]), _changes(source[start:end]), strict=True)
    for index, (change, true_change) in enumerate(both, start=start + 1):
        apart = cv2.absdiff(change, true_change)
        means = cv2.boxFilter(apart, -1, window[::-1], anchor=(0, 0))
        inside = means[: height - window[0] + 1, : width - window[1] + 1]
        _, value, _, (x, y) = cv2.minMaxLoc(inside)
        if value > worst:
            first = max(start, min(index - LENGTH // 2, end - LENGTH))
            worst, place = value, Place(first, y, x)
    return place


def _enlarged(part: Picture) -> Picture:
    resized = cv2.resize(part, (WINDOW, WINDOW), interpolation=cv2.INTER_CUBIC)
    return np.asarray(resized, np.uint8)


def _changes(video: Sequence[Picture]) -> Iterator[NDArray[np.float32]]:
    """Of luma, from each frame to the next."""
    luma = (gray(frame).astype(np.float32) for frame in video)
    return (after - before for before, after in pairwise(luma))
