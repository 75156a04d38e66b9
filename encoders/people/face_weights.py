"""Where eyes go first: faces weigh more in the encoder's distance than what is around them."""

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.people.detector import Detector

MODEL = "face_detection_short_range"
STRIDES = 8, 16, 16, 16
_LEAST_SCORE = 0.75
"""On development clips faces have .85 and more, what is taken for a face at most .65."""
_AROUND = 0.62, 0.72
"""Semi-axes of the ellipse that weighs more, in widths and heights of a face's box, which ends at
the brow and the chin."""


class FaceWeights:
    """Called with a picture, gives the weight of each of its parts. Threads may share it.

    The constructor raises MissingModelError without its model and MissingDependencyError without
    LiteRT.
    """

    def __init__(self, factor: float) -> None:
        """`factor`: weight of a face in proportion to all else."""
        self._factor = factor
        self._detect, self._lock = Detector(MODEL, STRIDES, _LEAST_SCORE), Lock()

    def __call__(self, picture: Picture, stride: int) -> NDArray[np.float32] | None:
        """At every `stride`-th pixel of every `stride`-th line of RGB uint8 (H, W, 3).

        float32 (ceil(H / stride), ceil(W / stride)), 1 in the mean, so that a lambda buys as many
        bits as without faces; None without a face.
        """
        with self._lock:
            faces = self._detect(picture)
        if not faces:
            return None
        height, width = picture.shape[:2]
        y, x = np.ogrid[:height:stride, :width:stride]
        weights = np.ones((y.size, x.size), np.float32)
        for face in faces:
            (left, top), (right, bottom) = face.box[:2], face.box[2:]
            across = (x - (left + right) / 2) / (_AROUND[0] * max(right - left, 1.0))
            down = (y - (top + bottom) / 2) / (_AROUND[1] * max(bottom - top, 1.0))
            weights[across**2 + down**2 < 1] = self._factor
        weights /= weights.mean()
        return weights
