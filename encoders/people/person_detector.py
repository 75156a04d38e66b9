"""Detection of the people in a picture by BlazePose's detector.

Method: V. Bazarevsky et al., "BlazePose: On-device Real-time Body Pose Tracking", 2020
(arXiv:2006.10204). A single-shot detector like BlazeFace gives a box around each face and two
points of the person's circle: its centre between the hips, and the top of its rim.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.encoders.people.tflite import Array, Network, sigmoid

_STRIDES = (8, 16, 32, 32, 32)
_ANCHORS_A_CELL_AND_LAYER = 2
_SUPPRESSION_OVERLAP = 0.3
_LEAST_SCORE = 0.5


class PersonDetector:
    """Called with a picture, gives the people in it, the most probable first.

    The constructor raises MissingModelError when the model is missing.
    """

    def __init__(self) -> None:
        self._network = Network("pose_detection")
        self._side = self._network.input_shape[1]
        self._anchors = _anchors(self._side)

    def __call__(self, picture: Picture) -> list[NDArray[np.float64]]:
        """Detect people in RGB uint8 (H, W, 3) of any size.

        Returns the two points of each person's circle, centre and top, as x, y in pixels, float64
        (2, 2); they may lie outside the picture.
        """
        square, placed = _letterbox(picture, self._side)
        raw, logits = self._network(square)
        scores = sigmoid(logits[0, :, 0])
        likely = np.flatnonzero(scores >= _LEAST_SCORE)
        boxes = _decoded(raw[0, likely], self._anchors[likely])
        people = _merged(boxes, scores[likely])
        return [(points[:2] - placed[:, 2]) / placed[0, 0] for points in people]


def _anchors(side: int) -> Array:
    """Anchor centres, (n, 2) as x, y in pixels of the input; layers of one stride share cells."""
    centres = []
    for stride in sorted(set(_STRIDES)):
        repeats = _STRIDES.count(stride) * _ANCHORS_A_CELL_AND_LAYER
        steps = (np.arange(side // stride, dtype=np.float32) + 0.5) * stride
        grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
        centres.append(np.repeat(grid, repeats, axis=0))
    return np.concatenate(centres)


def _letterbox(picture: Picture, side: int) -> tuple[Array, NDArray[np.float64]]:
    """The picture in a black square of `side`, in [-1, 1], and the affine map (2, 3) into it."""
    height, width = picture.shape[:2]
    scale = side / max(height, width)
    placed = np.array(
        [[scale, 0, (side - width * scale) / 2], [0, scale, (side - height * scale) / 2]]
    )
    # Linear, as in MediaPipe, so that the points agree; area averaging finds as many people.
    square = cv2.warpAffine(picture, placed, (side, side), flags=cv2.INTER_LINEAR)
    return square[np.newaxis].astype(np.float32) / np.float32(127.5) - np.float32(1), placed


def _decoded(raw: Array, anchors: Array) -> Array:
    """Network output (n, 12) in pixels (n, 12): left, top, right, bottom, four points x, y."""
    centre, half = raw[:, :2] + anchors, raw[:, 2:4] / 2
    points = raw[:, 4:].reshape(-1, 4, 2) + anchors[:, np.newaxis]
    return np.concatenate([centre - half, centre + half, points.reshape(-1, 8)], axis=1)


def _merged(boxes: Array, scores: Array) -> list[Array]:
    """Average overlapping boxes by their scores (BlazeFace, arXiv:1907.05047, section 3.3).

    Gives the four points, (4, 2), of each, highest score first.
    """
    order = np.argsort(-scores, kind="stable")
    people = []
    while len(order):
        same = _overlap(boxes[order[0], :4], boxes[order, :4]) > _SUPPRESSION_OVERLAP
        same[0] = True
        cluster = order[same]
        box = np.average(boxes[cluster], axis=0, weights=scores[cluster])
        people.append(box[4:].reshape(4, 2).astype(np.float32))
        order = order[~same]
    return people


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with (n, 4) others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    return np.asarray(shared / np.maximum(area + areas - shared, 1e-6))
