"""Where crops are cut: rather where something is to be restored."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture

_PLACES = 4
_EASY = 0.25
"""Share of crops that are cut at any place."""
_LEAST_SPREAD = 3.0
"""Standard deviation of levels, 0-255, below which a place shows nothing."""
_COARSE, _RUINED = 8, 12.0
"""Side of a cell, and mean difference of levels in the worst cells: there a coarse quantiser has
left out what moved, and another moment is shown. No refiner can know what was there."""

Place = tuple[int, int]
"""Top and left of a crop."""


Pair = tuple[Picture, Picture]
"""A source, and what came of it: RGB uint8 (H, W, 3)."""


def crop_place(
    pairs: Sequence[Pair], coded: Sequence[Pair], side: int, rng: Generator
) -> Place | None:
    """Of a few random places the one where `pairs` differ most, or just any.

    None where all places are blank, or ruined in a picture of `coded`.
    """
    truth, given = zip(*pairs, strict=True)
    height, width = truth[0].shape[:2]
    drawn = rng.integers((height - side + 1, width - side + 1), size=(_PLACES, 2))
    is_easy = rng.random() < _EASY
    places = [(int(top), int(left)) for top, left in drawn]
    shown = [
        one
        for one in places
        if cropped(truth[0], one, side).std() > _LEAST_SPREAD
        and not any(_is_ruined(*(cropped(of, one, side) for of in pair)) for pair in coded)
    ]
    if not shown or is_easy:
        return shown[0] if shown else None

    def damage(place: Place) -> float:
        crops = [cropped(np.stack(pictures, 2), place, side) for pictures in (truth, given)]
        return float(np.abs(crops[0].astype(np.int16) - crops[1]).mean())

    return max(shown, key=damage)


def _is_ruined(truth: Picture, given: Picture) -> bool:
    """Whether a crop shows something else, not just less."""
    cells = truth.shape[1] // _COARSE, truth.shape[0] // _COARSE
    coarse = [
        cv2.GaussianBlur(cv2.resize(of, cells, interpolation=cv2.INTER_AREA), (0, 0), 1)
        for of in (truth, given)
    ]
    difference = np.abs(coarse[0].astype(np.float32) - coarse[1]).mean(2)
    return float(np.percentile(difference, 95)) > _RUINED


def cropped(picture: NDArray[np.uint8], place: Place, side: int) -> NDArray[np.uint8]:
    """A square of a picture (H, W, ...)."""
    top, left = place
    return picture[top : top + side, left : left + side]
