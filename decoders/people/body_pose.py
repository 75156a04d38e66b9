"""Body poses of the people in a picture: BlazePose on a square around each.

Method: V. Bazarevsky et al., "BlazePose: On-device Real-time Body Pose Tracking", 2020
(arXiv:2006.10204), "full" network of the "BlazePose GHUM 3D" model card (Google, 2021).
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.decoders.people.person_detector import PersonDetector
from gsvc.decoders.people.tflite import Array, Network, sigmoid

COCO17: tuple[int, ...] = (0, 2, 5, 7, 8, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
"""COCO's 17 points among the 33, in COCO's order: nose, then left and right of eye, ear, shoulder,
elbow, wrist, hip, knee, ankle."""

_SQUARE_SCALE = 1.25
"""How much larger the square that is looked at is than the person's circle."""
_POINTS = 33
_PRESENCE_THRESHOLD = 0.5
_HEAT_MAP_WINDOW = 7
_HEAT_MAP_THRESHOLD = 0.5
_SAME_PERSON = 0.1
"""Mean distance of two poses' points, by the larger extent, below which they are one person."""


@dataclass(frozen=True)
class DetectedPose:
    """The pose of one person."""

    points: Array
    """float32 (33, 2): x, y in pixels, possibly outside the picture."""
    visibility: Array
    """float32 (33,): probability that a point is in the picture and not hidden."""
    box: tuple[float, float, float, float]
    """Left, top, right and bottom of the points in pixels."""


class PoseEstimator:
    """Called with a picture, gives the poses of at most `max_people` (1-16), most probable first.

    The result depends on the picture alone. The constructor raises ConfigError for other numbers,
    MissingModelError when a model is missing.
    """

    def __init__(self, max_people: int = 4) -> None:
        if not 1 <= max_people <= 16:
            raise ConfigError(f"max_people is {max_people}: choose 1 to 16")
        self._detect = PersonDetector()
        self._network = Network("pose_landmark_full")
        self._side = self._network.input_shape[1]
        self._max_people = max_people

    def __call__(self, picture: Picture) -> list[DetectedPose]:
        """Detect poses in RGB uint8 (H, W, 3) of any size."""
        poses: list[DetectedPose] = []
        for circle in self._detect(picture):
            pose = self._pose(picture, circle)
            if pose is not None and not any(_same_person(pose, other) for other in poses):
                poses.append(pose)
            if len(poses) == self._max_people:
                break
        return poses

    def _pose(self, picture: Picture, circle: NDArray[np.float64]) -> DetectedPose | None:
        to_picture = _to_picture(circle, self._side)
        # Black borders would move the points of people who are partly outside the picture.
        crop = cv2.warpAffine(
            picture,
            to_picture,
            (self._side, self._side),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        outputs = self._network(crop[np.newaxis].astype(np.float32) / np.float32(255))
        if outputs[1][0, 0] < _PRESENCE_THRESHOLD:
            return None
        values, heat = outputs[0].reshape(-1, 5), outputs[3][0]
        inside = _refined(values[:_POINTS, :2], heat[:, :, :_POINTS], self._side)
        points = (inside @ to_picture[:, :2].T + to_picture[:, 2]).astype(np.float32)
        left, top = points.min(axis=0)
        right, bottom = points.max(axis=0)
        return DetectedPose(
            points=points,
            visibility=sigmoid(values[:_POINTS, 3:].min(axis=1)),
            box=(float(left), float(top), float(right), float(bottom)),
        )


def _to_picture(circle: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Affine map, (2, 3), from pixels of the network's input to pixels of the picture.

    The input shows the square around a person's `circle` (centre and top), who stands upright.
    """
    dx, dy = circle[1] - circle[0]
    scale = max(2 * float(np.hypot(dx, dy)) * _SQUARE_SCALE, 1.0) / side
    angle = float(np.arctan2(dx, -dy))
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return np.column_stack([turn, circle[0] - turn @ np.full(2, side / 2)])


def _refined(points: Array, heat: Array, side: int) -> Array:
    """Move each point to the centre of mass of its heat map around it, if that is confident.

    `points`: (n, 2) in pixels of the network's input; `heat`: (rows, columns, n) logits.
    """
    rows, columns, _ = heat.shape
    refined = points.copy()
    reach = _HEAT_MAP_WINDOW // 2
    for index, (x, y) in enumerate(points):
        column, row = int(x / side * columns), int(y / side * rows)
        if not (0 <= column < columns and 0 <= row < rows):
            continue
        top, left = max(row - reach, 0), max(column - reach, 0)
        window = sigmoid(heat[top : row + reach + 1, left : column + reach + 1, index])
        if window.max() < _HEAT_MAP_THRESHOLD:
            continue
        cells = np.indices(window.shape).reshape(2, -1) @ window.ravel() / window.sum()
        refined[index] = (cells[1] + left) * side / columns, (cells[0] + top) * side / rows
    return refined


def _same_person(one: DetectedPose, other: DetectedPose) -> bool:
    extent = max(max(box[2] - box[0], box[3] - box[1]) for box in (one.box, other.box))
    distance = np.linalg.norm(one.points - other.points, axis=1).mean()
    return bool(distance < _SAME_PERSON * extent)
