"""Detection of the people in a picture by BlazePose's detector.

Method: V. Bazarevsky et al., "BlazePose: On-device Real-time Body Pose Tracking", 2020
(arXiv:2006.10204). A single-shot detector like BlazeFace gives a box around each face and two
points of the person's circle: its centre between the hips, and the top of its rim.
"""

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.people.detector import Detector

_STRIDES = (8, 16, 32, 32, 32)


class PersonDetector:
    """Called with a picture, gives the people in it, the most probable first.

    The constructor raises MissingModelError when the model is missing.
    """

    def __init__(self) -> None:
        self._detect = Detector("pose_detection", _STRIDES)

    def __call__(self, picture: Picture) -> list[NDArray[np.float64]]:
        """Detect people in RGB uint8 (H, W, 3) of any size.

        Returns the two points of each person's circle, centre and top, as x, y in pixels, float64
        (2, 2); they may lie outside the picture.
        """
        return [found.points[:2] for found in self._detect(picture)]
