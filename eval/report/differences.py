"""How a version differs from its source over time: a line, and a map under it.

By ColorVideoVDP where its package is, else by light alone, and then it says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import GsvcError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.decoders.motion.estimation import gray
from gsvc.eval.metrics.cvvdp import differences_over_time
from gsvc.eval.pictures import image_file

_BY_EYE = "ColorVideoVDP: JOD that are lost"
_BY_LIGHT = "mean difference of luma, 0 to 255, as ColorVideoVDP cannot tell"
_EYE_ROWS, _EYE_ORDER = ["still", "changing"], "each half from fine detail down to coarse"
_LIGHT_ROWS, _LIGHT_ORDER = ["light"], "from the top of the picture to its bottom"
_MOST_SHARE = 99.5
"""Percentile of all values that is white in the maps: a cut must not darken the rest."""
_LIGHT_SLICES = 18


@dataclass(frozen=True)
class Differences:
    """Of several versions of one clip, in one measure."""

    measure: str
    """What the lines show; greater is worse."""
    rows: list[str]
    """What the maps show, in as many equal parts from the top."""
    order: str
    """Of the rows of each part."""
    lines: list[list[float]]
    """Of each version, by frame."""
    maps: list[NDArray[np.float64]]
    """Of each version, shape (rows, frames)."""

    @property
    def most(self) -> float:
        """The value that is white in the maps."""
        return float(np.percentile(np.concatenate(self.maps), _MOST_SHARE))


def differences(source: TestClip, versions: Sequence[Sequence[Picture]]) -> Differences:
    """Of each version from the source, all in the same measure."""
    if len(source.frames) < 2:
        return _by_light(source, versions, "one picture is no video")
    try:
        found = [differences_over_time(source, frames) for frames in versions]
    except GsvcError as error:
        return _by_light(source, versions, str(error))
    # Light and colour that stand, then light that changes.
    maps = [np.vstack([one.bands[:3].max(axis=0).T, one.bands[3].T]) for one in found]
    return Differences(
        _BY_EYE, _EYE_ROWS, _EYE_ORDER, [list(map(float, one.frames)) for one in found], maps
    )


def worst_second(line: Sequence[float], frame_rate: float) -> tuple[int, int]:
    """First frame, and the one after the last, of the second with the greatest sum."""
    length = max(1, min(len(line), round(frame_rate)))
    sums = np.convolve(line, np.ones(length), "valid")
    first = int(sums.argmax())
    return first, first + length


def map_picture(values: NDArray[np.float64], most: float) -> bytes:
    """A map as a PNG with a pixel a value: from black over red to white at `most`."""
    shades = np.clip(255 * values / (most or 1.0), 0, 255).astype(np.uint8)
    coloured = cv2.applyColorMap(shades, cv2.COLORMAP_INFERNO)
    return image_file(np.asarray(coloured[..., ::-1], np.uint8), ".png")


def _by_light(source: TestClip, versions: Sequence[Sequence[Picture]], why: str) -> Differences:
    maps = []
    for frames in versions:
        pairs = zip(source.frames, frames, strict=True)
        apart = [cv2.absdiff(gray(a), gray(b)).mean(axis=1) for a, b in pairs]
        slices = [np.array_split(one, min(_LIGHT_SLICES, len(one))) for one in apart]
        maps.append(np.array([[float(part.mean()) for part in one] for one in slices]).T)
    lines = [list(map(float, one.mean(axis=0))) for one in maps]
    return Differences(f"{_BY_LIGHT} ({why})", _LIGHT_ROWS, _LIGHT_ORDER, lines, maps)
