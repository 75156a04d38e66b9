"""Things of the 80 classes of COCO: a small CenterNet, brought by `gsvc models pull coco`.

X. Zhou, D. Wang, P. Krähenbühl, "Objects as Points", 2019 (arXiv:1904.07850), with MobileNetV3:
each class has a map of where the middles of its things are, and one map has their four sides.
"""

import json

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.object_kinds import COCO
from gsvc.datasets.models import model_path
from gsvc.decoders.analysis.boxes import within
from gsvc.decoders.analysis.graph_model import as_onnx
from gsvc.decoders.analysis.types import Detection

_SIDE, _STEP = 512, 4
"""Of the picture that the network sees; pixels of it from one place of a map to the next."""
_MAPS, _SIDES = "tower_0/keypoints", "tower_0/wh"
_MOST = 100
"""Things of a picture."""
_LEAST_SCORE, _NEW_SCORE = 0.25, 0.4
"""Of what goes on with a thing that was found before, and of a new one: Y. Zhang et al.,
"ByteTrack", ECCV 2022 (arXiv:2110.06864)."""
_SAME = 0.7
"""Share of a thing within a surer one, from which they are one: a car is no truck as well."""


class CocoDetector:
    """Finds things of COCO's classes; see `Detector`.

    The constructor raises MissingModelError, and MissingDependencyError without onnx.
    """

    def __init__(self) -> None:
        graph = json.loads(model_path("coco_graph").read_text("utf-8"))
        count = _SIDE // _STEP
        shapes = {_MAPS: (1, len(COCO), count, count), _SIDES: (1, 4, count, count)}
        data = as_onnx(graph, model_path("coco").read_bytes(), _SIDE, shapes)
        self._net = cv2.dnn.readNetFromONNX(np.frombuffer(data, np.uint8))

    def __call__(self, picture: Picture) -> list[Detection]:
        """What is in RGB uint8 (H, W, 3), surest first."""
        height, width = picture.shape[:2]
        square = cv2.resize(picture, (_SIDE, _SIDE), interpolation=_interpolation(picture))
        self._net.setInput(cv2.dnn.blobFromImage(square))
        maps, sides = (one[0] for one in self._net.forward([_MAPS, _SIDES]))
        scale = np.array([width, height, width, height]) / _SIDE
        found: list[Detection] = []
        for kind, row, column in _peaks(maps, _LEAST_SCORE):
            middle = _STEP * np.array([column, row, column, row], np.float64)
            box = (middle + sides[:, row, column] * (-1, -1, 1, 1)) * scale
            if (box[2:] <= box[:2]).any() or any(_is_same(box, one.box) for one in found):
                continue
            score = float(maps[kind, row, column])
            found.append(Detection(COCO[kind], box, score, begins=score >= _NEW_SCORE))
        return found


def _peaks(maps: NDArray[np.float32], least: float) -> list[tuple[int, int, int]]:
    """Class, row and column of the places that none beside them surpasses, surest first."""
    kernel = np.ones((3, 3), np.uint8)
    highest = np.stack([cv2.dilate(one, kernel) for one in maps])
    at = np.argwhere((maps == highest) & (maps >= least))
    order = np.argsort(-maps[tuple(at.T)], kind="stable")[:_MOST]
    return [(kind, row, column) for kind, row, column in at[order].tolist()]


def _is_same(box: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return within(box, other) > _SAME and within(other, box) > _SAME


def _interpolation(picture: Picture) -> int:
    return cv2.INTER_AREA if min(picture.shape[:2]) > _SIDE else cv2.INTER_LINEAR
