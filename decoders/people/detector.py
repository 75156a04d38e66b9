"""Single-shot detectors of MediaPipe: boxes, and points in each, from one look at the picture.

Method: V. Bazarevsky et al., "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs",
2019 (arXiv:1907.05047).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.people.tflite import Array, Network, sigmoid

_ANCHORS_A_CELL_AND_LAYER = 2
_SUPPRESSION_OVERLAP = 0.3


@dataclass(frozen=True)
class Detection:
    """One thing found; all in pixels of the picture, possibly outside it."""

    box: NDArray[np.float64]
    """Left, top, right, bottom, float64 (4,)."""
    points: NDArray[np.float64]
    """The model's points as x, y, float64 (n, 2)."""


class Detector:
    """Called with a picture, gives what the model detects, the most probable first.

    `strides`: of the model's layers of anchors, in pixels of its input; `least_score`: that counts
    as a detection, 0 to 1. The constructor raises MissingModelError when the model is missing.
    """

    def __init__(self, model: str, strides: Sequence[int], least_score: float = 0.5) -> None:
        self._network, self._least_score = Network(model), least_score
        self._side = self._network.input_shape[1]
        self._anchors = _anchors(self._side, strides)

    def __call__(self, picture: Picture) -> list[Detection]:
        """Detect in RGB uint8 (H, W, 3) of any size."""
        square, placed = _letterbox(picture, self._side)
        raw, logits = self._network(square)
        scores = sigmoid(logits[0, :, 0])
        likely = np.flatnonzero(scores >= self._least_score)
        found = _merged(_decoded(raw[0, likely], self._anchors[likely]), scores[likely])
        places = [(one.reshape(-1, 2) - placed[:, 2]) / placed[0, 0] for one in found]
        return [Detection(one[:2].ravel(), one[2:]) for one in places]


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
    """Average overlapping boxes and their points by their scores (BlazeFace, section 3.3).

    Gives a row of `boxes` for each, highest score first.
    """
    order = np.argsort(-scores, kind="stable")
    found = []
    while len(order):
        same = _overlap(boxes[order[0], :4], boxes[order, :4]) > _SUPPRESSION_OVERLAP
        same[0] = True
        cluster = order[same]
        found.append(np.average(boxes[cluster], axis=0, weights=scores[cluster]).astype(np.float32))
        order = order[~same]
    return found


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with (n, 4) others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    return np.asarray(shared / np.maximum(area + areas - shared, 1e-6))
