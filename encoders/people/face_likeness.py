"""How like the source a drawn face is: its points as a network finds them in either.

A distance of textures hardly sees a nose bent aside or a mouth drawn twice; where the points go, so
does the likeness.
"""

from threading import Lock

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.motion.face_shape import LANDMARKS, Points
from gsvc.encoders.people.face_points import OUTER_EYE_CORNERS, FacePoints

_POINTS = 468
_LIPS = 13, 14
"""Of the 468 points: the middle of the inner edges."""


class FaceLikeness:
    """Threads may share it."""

    def __init__(self, find: FacePoints) -> None:
        self._find, self._lock = find, Lock()

    def points(self, picture: Picture, around: Points) -> Points | None:
        """All points, (468, 2) in pixels, of the face about `around`, those of `LANDMARKS` nearly.

        `picture` is RGB or luma, uint8; colours do not count. None where no face is seen.
        """
        known = np.repeat(around.mean(axis=0, keepdims=True), _POINTS, axis=0)
        known[LANDMARKS] = around
        luma = cv2.cvtColor(gray(picture), cv2.COLOR_GRAY2RGB)
        with self._lock:
            return self._find.points(np.asarray(luma, np.uint8), self._find.square_of(known))


def unlikeness(source: Points | None, drawn: Points | None) -> float:
    """Mean distance of (468, 2) points plus the difference of the mouth's openings.

    In distances of the source's outer eye corners, at most 2, also where no face is drawn; 0 where
    the source shows none.
    """
    if source is None:
        return 0.0
    if drawn is None:
        return 2.0
    eyes = max(_apart(source, OUTER_EYE_CORNERS), 1.0)
    moved = float(np.linalg.norm(source - drawn, axis=1).mean())
    opened = abs(_apart(source, _LIPS) - _apart(drawn, _LIPS))
    return min(2.0, (moved + opened) / eyes)


def _apart(points: NDArray[np.float64], pair: tuple[int, int]) -> float:
    one, other = points[list(pair)]
    return float(np.linalg.norm(one - other))
