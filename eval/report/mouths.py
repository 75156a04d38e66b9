"""Speaking mouths on paper: where and when the mouth of a clip's face moves most."""

import numpy as np
from numpy.typing import NDArray

from gsvc.datasets.clips import TestClip
from gsvc.eval.metrics.faces import LIPS, SPEAKS, main_faces, opening
from gsvc.eval.report.strips import LENGTH, Place

_SHARE = 0.75
"""Side of the square about the lips, in widths of the face: from the nose to below the chin."""
_LEAST_SIDE = 32


def speaking_place(source: TestClip) -> Place | None:
    """The part about the lips of the frames whose mouth opens and closes most.

    None where no mouth moves. Raises MissingModelError and MissingDependencyError.
    """
    faces = main_faces(source)
    points = [faces[t].points if t in faces else None for t in range(len(source.frames))]
    openings = np.array([opening(one) for one in points])
    spans = [_range(openings[k : k + LENGTH]) for k in range(max(1, len(openings) - LENGTH + 1))]
    first = int(np.argmax(spans))
    if spans[first] < SPEAKS:
        return None
    shown = np.array([one for one in points[first : first + LENGTH] if one is not None])
    height, width = source.frames[0].shape[:2]
    across = float(np.ptp(shown[..., 0], axis=1).mean())
    side = min(max(_LEAST_SIDE, round(_SHARE * across)), height, width)
    x, y = shown[:, LIPS].mean(axis=(0, 1))
    return Place(first, _start(y, side, height), _start(x, side, width), side)


def _start(centre: float, side: int, size: int) -> int:
    """Of a side about `centre`, inside the picture."""
    return min(max(0, round(centre - side / 2)), size - side)


def _range(openings: NDArray[np.float64]) -> float:
    """From the least to the greatest; 0 unless the face is found on all frames."""
    return 0.0 if np.isnan(openings).any() else float(np.ptp(openings))
