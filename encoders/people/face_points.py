"""Faces in a picture, and 468 points of each: MediaPipe's face mesh.

Method: Y. Kartynnik et al., "Real-time Facial Surface Geometry from Monocular Video on Mobile
GPUs", 2019 (arXiv:1907.06724), in squares that BlazeFace finds (arXiv:1907.05047).
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.people.detector import Detection, Detector
from gsvc.decoders.people.tflite import Network, sigmoid
from gsvc.encoders.people.face_weights import MODEL, STRIDES

OUTER_EYE_CORNERS = (33, 263)
"""Of the 468 points: the right eye's and the left eye's."""

Square = NDArray[np.float64]
"""Affine map, (2, 3), from pixels of the network's input to those of a picture."""

_SQUARE_SCALE = 1.5
"""How much larger the square that is looked at is than the face's box."""
_POINTS = 468
_PRESENCE_THRESHOLD = 0.5


class FacePoints:
    """Finds faces in a picture, and the points of a face in a square of a picture.

    The results depend on the picture and the square alone. The constructor raises
    MissingModelError when a model is missing.
    """

    def __init__(self) -> None:
        self._detect = Detector(MODEL, STRIDES)
        self._network = Network("face_landmark")
        self._side = self._network.input_shape[1]

    def squares(self, picture: Picture) -> list[Square]:
        """Where faces are in RGB uint8 (H, W, 3), the most probable first, turned upright."""
        return [_square(found, self._side) for found in self._detect(picture)]

    def points(self, picture: Picture, square: Square) -> NDArray[np.float64] | None:
        """The points of the face in that square, float64 (468, 2), pixels; None without a face."""
        crop = cv2.warpAffine(
            picture,
            square,
            (self._side, self._side),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        values, presence = self._network(crop[np.newaxis].astype(np.float32) / np.float32(255))
        if sigmoid(presence).item() < _PRESENCE_THRESHOLD:
            return None
        inside = values.reshape(_POINTS, 3)[:, :2].astype(np.float64)
        return np.asarray(inside @ square[:, :2].T + square[:, 2])

    def square_of(self, points: NDArray[np.float64]) -> Square:
        """The square around a face whose points, (468, 2), are known, with its eyes on a level."""
        dx, dy = points[OUTER_EYE_CORNERS[1]] - points[OUTER_EYE_CORNERS[0]]
        angle = float(np.arctan2(dy, dx))
        cosine, sine = np.cos(angle), np.sin(angle)
        turn = np.array([[cosine, -sine], [sine, cosine]])
        level = points @ turn
        low, high = level.min(axis=0), level.max(axis=0)
        scaled = turn * max(*(high - low), 1.0) * _SQUARE_SCALE / self._side
        centre = turn @ ((low + high) / 2)
        return np.column_stack([scaled, centre - scaled @ np.full(2, self._side / 2)])


def _square(face: Detection, side: int) -> Square:
    """The square around a face, with its eyes, the first two points, on a level."""
    left, top, right, bottom = face.box
    dx, dy = face.points[1] - face.points[0]
    scale = max(right - left, bottom - top, 1.0) * _SQUARE_SCALE / side
    angle = float(np.arctan2(dy, dx))
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    centre = np.array([left + right, top + bottom]) / 2
    return np.column_stack([turn, centre - turn @ np.full(2, side / 2)])
