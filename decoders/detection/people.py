"""People in a picture, by MediaPipe's networks on LiteRT: boxes, points in each, body poses.

Methods: V. Bazarevsky et al., "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs",
2019 (arXiv:1907.05047), a single-shot detector; and "BlazePose: On-device Real-time Body Pose
Tracking", 2020 (arXiv:2006.10204), "full" network of the "BlazePose GHUM 3D" model card (Google,
2021), on a square around each person.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import PULL_COMMAND, model_path
from gsvc.decoders.detection.findings import overlap

Array = NDArray[np.float32]


class LiteRtModel:
    """A model of the registry with one float32 input; not thread-safe.

    The constructor raises MissingModelError when the file is missing or damaged,
    MissingDependencyError when LiteRT is not installed.
    """

    def __init__(self, name: str) -> None:
        path = model_path(name)
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as cause:
            why = f"the extractors need LiteRT ({cause}); run: pip install ai-edge-litert"
            raise MissingDependencyError(why) from cause
        try:
            with _without_notices():
                # One thread: pictures are small, and results must not depend on the machine.
                self._interpreter = Interpreter(model_path=str(path), num_threads=1)
                self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as cause:
            reason = str(cause).strip().partition("\n")[0] or "no reason given"
            why = f"model {name} cannot be loaded ({reason}); delete {path} and run: {PULL_COMMAND}"
            raise MissingModelError(why) from cause
        entry = self._interpreter.get_input_details()[0]
        self._input = int(entry["index"])
        self._outputs = [int(each["index"]) for each in self._interpreter.get_output_details()]
        self.input_shape: tuple[int, ...] = tuple(int(side) for side in entry["shape"])

    def __call__(self, values: Array) -> list[Array]:
        """Run on `values` of shape `input_shape`; gives copies of all outputs in model order."""
        self._interpreter.set_tensor(self._input, values)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


@contextmanager
def _without_notices() -> Iterator[None]:
    """Drop LiteRT's notices, which C++ code writes to file descriptor 2 without a switch; all else
    is passed on afterwards."""
    try:
        kept = os.dup(2)
    except OSError:  # a program without one: nobody sees them
        yield
        return
    with open(os.memfd_create("notices"), "w+b") as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            other = [line for line in caught if not line.startswith(b"INFO: ")]
            with suppress(OSError):
                os.write(2, b"".join(other))


def sigmoid(logits: Array) -> Array:
    """The logistic function, computed in double precision; float32 of the same shape."""
    return (1 / (1 + np.exp(-np.clip(logits, -100, 100).astype(np.float64)))).astype(np.float32)


_ANCHORS_A_CELL_AND_LAYER = 2
_SUPPRESSION_OVERLAP = 0.3


class DetectedBox(NamedTuple):
    """One thing found; all in pixels of the picture, possibly outside it."""

    box: NDArray[np.float64]
    """Left, top, right, bottom, float64 (4,)."""
    points: NDArray[np.float64]
    """The model's points as x, y, float64 (n, 2)."""


class SingleShotDetector:
    """Called with a picture, gives what the model detects, the most probable first.

    `strides`: of the model's layers of anchors, in pixels of its input; `least_score`: that counts
    as a detection, 0 to 1. The constructor raises MissingModelError when the model is missing.
    """

    def __init__(self, model: str, strides: Sequence[int], least_score: float = 0.5) -> None:
        self._network, self._least_score = LiteRtModel(model), least_score
        self._side = self._network.input_shape[1]
        self._anchors = _anchors(self._side, strides)

    def __call__(self, picture: Picture) -> list[DetectedBox]:
        """Detect in RGB uint8 (H, W, 3) of any size."""
        square, placed = _letterbox(picture, self._side)
        raw, logits = self._network(square)
        scores = sigmoid(logits[0, :, 0])
        likely = np.flatnonzero(scores >= self._least_score)
        found = _merged(_decoded(raw[0, likely], self._anchors[likely]), scores[likely])
        places = [(one.reshape(-1, 2) - placed[:, 2]) / placed[0, 0] for one in found]
        return [DetectedBox(one[:2].ravel(), one[2:]) for one in places]


def _anchors(side: int, strides: Sequence[int]) -> Array:
    """Anchor centres, (n, 2) as x, y in pixels of the input; layers of one stride share cells."""
    centres = []
    for stride in sorted(set(strides)):
        repeats = strides.count(stride) * _ANCHORS_A_CELL_AND_LAYER
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
    """Network output in pixels, one row each: left, top, right, bottom, the points' x, y."""
    centre, half = raw[:, :2] + anchors, raw[:, 2:4] / 2
    offsets = np.tile(anchors, (1, raw.shape[1] // 2 - 2))
    return np.concatenate([centre - half, centre + half, raw[:, 4:] + offsets], axis=1)


def _merged(boxes: Array, scores: Array) -> list[Array]:
    """Overlapping boxes and their points, averaged by scores (BlazeFace, section 3.3): rows of
    `boxes`, highest score first."""
    order = np.argsort(-scores, kind="stable")
    found = []
    while len(order):
        same = overlap(boxes[order[:1], :4], boxes[order, :4])[0] > _SUPPRESSION_OVERLAP
        same[0] = True
        cluster = order[same]
        found.append(np.average(boxes[cluster], axis=0, weights=scores[cluster]).astype(np.float32))
        order = order[~same]
    return found


_STRIDES = (8, 16, 32, 32, 32)

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


class DetectedPose(NamedTuple):
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
        self._detect = SingleShotDetector("pose_detection", _STRIDES)
        self._network = LiteRtModel("pose_landmark_full")
        self._side = self._network.input_shape[1]
        self._max_people = max_people

    def __call__(self, picture: Picture) -> list[DetectedPose]:
        """Detect poses in RGB uint8 (H, W, 3) of any size."""
        poses: list[DetectedPose] = []
        for found in self._detect(picture):
            pose = self._pose(picture, found.points[:2])  # of the person's circle: centre and top
            if pose is not None and not any(_same_person(pose, other) for other in poses):
                poses.append(pose)
            if len(poses) == self._max_people:
                break
        return poses

    def _pose(self, picture: Picture, circle: NDArray[np.float64]) -> DetectedPose | None:
        dx, dy = circle[1] - circle[0]
        extent = max(2 * float(np.hypot(dx, dy)) * _SQUARE_SCALE, 1.0)
        to_picture = upright_square(circle[0], extent, float(np.arctan2(dx, -dy)), self._side)
        outputs = self._network(crop(picture, to_picture, self._side))
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


def crop(picture: Picture, square: NDArray[np.float64], side: int) -> Array:
    """A square of RGB uint8 (H, W, 3), an `upright_square`: float32 (1, side, side, 3), 0 to 1."""
    # Black borders would move the points of people who are partly outside the picture.
    flags, border = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, cv2.BORDER_REPLICATE
    seen = cv2.warpAffine(picture, square, (side, side), flags=flags, borderMode=border)
    return np.asarray(seen[np.newaxis], np.float32) / np.float32(255)


def upright_square(
    centre: NDArray[np.float64], extent: float, angle: float, side: int
) -> NDArray[np.float64]:
    """Affine map, (2, 3), from pixels of a network's input of `side` to pixels of the picture.

    The input shows the square of `extent` pixels, turned by `angle`, around `centre`.
    """
    scale = extent / side
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return np.column_stack([turn, centre - turn @ np.full(2, side / 2)])


def _refined(points: Array, heat: Array, side: int) -> Array:
    """Move each point to the centre of mass of its heat map around it, if that is confident.
    `points`: (n, 2) in pixels of the network's input; `heat`: (rows, columns, n) logits."""
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
