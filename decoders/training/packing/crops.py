"""Where crops are cut: rather where something is to be restored."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

_PLACES = 4
_EASY = 0.25
"""Share of crops that are cut at any place."""
_LEAST_SPREAD = 3.0
"""Standard deviation of levels, 0-255, below which a place shows nothing."""

Place = tuple[int, int]
"""Top and left of a crop."""


def crop_place(
    truth: Sequence[Picture], given: Sequence[Picture], side: int, rng: Generator
) -> Place | None:
    """Of a few random places the one where `given` is furthest from `truth`, or just any.

    Pictures are RGB uint8 (H, W, 3). None where all places are blank.
    """
    height, width = truth[0].shape[:2]
    drawn = rng.integers((height - side + 1, width - side + 1), size=(_PLACES, 2))
    is_easy = rng.random() < _EASY
    places = [(int(top), int(left)) for top, left in drawn]
    shown = [one for one in places if cropped(truth[0], one, side).std() > _LEAST_SPREAD]
    if not shown or is_easy:
        return shown[0] if shown else None

    def damage(place: Place) -> float:
        crops = [cropped(np.stack(pictures, 2), place, side) for pictures in (truth, given)]
        return float(np.abs(crops[0].astype(np.int16) - crops[1]).mean())

    return max(shown, key=damage)


def cropped(picture: NDArray[np.uint8], place: Place, side: int) -> NDArray[np.uint8]:
    """A square of a picture (H, W, ...)."""
    top, left = place
    return picture[top : top + side, left : left + side]
