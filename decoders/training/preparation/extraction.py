"""What is extracted of the source beside a sample: masks, poses, faces, flow.

The models are loaded once a process. Of a clip each frame is looked at once, however many samples
are cut of it.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.detection.people import PoseEstimator
from gsvc.decoders.interpolation.optical_flow import dense_flow, gray
from gsvc.decoders.training.packing.crops import Place
from gsvc.decoders.training.preparation.members import array_bytes, picture_bytes
from gsvc.encoders.scaffold.face_landmarks import FaceMesh
from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter

FLOW_STRIDE = 4
"""Pixels from one vector to the next."""
_CERTAIN = 255

Extracted = tuple[dict[str, bytes], dict[str, object]]
"""Files, and entries of the JSON file."""


class Looks:
    """Looks at the frames of one clip."""

    def __init__(self, frames: Sequence[Picture], side: int) -> None:
        """`side`: of the samples' crops."""
        self._frames, self._side = frames, side
        self._seen: dict[tuple[str, int], NDArray[np.float32]] = {}

    def at(self, name: str, numbers: Sequence[int], place: Place) -> Extracted:
        """What `name` (of `EXTRACTED`) gives for frames, cut at a place."""
        if name == "masks":
            masks = [self._cut(name, number, place) for number in numbers]
            return {"mask.png": picture_bytes(np.stack(masks)[..., None].astype(np.uint8))}, {}
        if name == "flow":
            flows = [self._cut(name, number, place) for number in numbers]
            small = [each[::FLOW_STRIDE, ::FLOW_STRIDE] for each in flows]
            return {"flow.npy": array_bytes(np.stack(small).astype(np.float16))}, {}
        corner = np.array(place[::-1], np.float32)
        points = [self._look(name, number) for number in numbers]
        moved = [np.concatenate([p[..., :2] - corner, p[..., 2:]], -1) for p in points]
        return {}, {name: [each.round(2).tolist() for each in moved]}

    def _cut(self, name: str, number: int, place: Place) -> NDArray[np.float32]:
        top, left = place
        seen = self._look(name, number)
        return seen[top : top + self._side, left : left + self._side]

    def _look(self, name: str, number: int) -> NDArray[np.float32]:
        if (name, number) not in self._seen:
            self._seen[name, number] = EXTRACTED[name](self._frames, number)
        return self._seen[name, number]


def _masks(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """Probability of people, 0 to 255, (H, W)."""
    return np.rint(_CERTAIN * _segmenter()(frames[number]))


def _flow(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """To the next frame, of the last one from the one before, in pixels, (H, W, 2)."""
    first = min(number, len(frames) - 2)
    return dense_flow(gray(frames[first]), gray(frames[first + 1]))


def _pose(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """Of each person 33 points: x, y, visibility, (n, 33, 3)."""
    found = _poses()(frames[number])
    rows = [np.column_stack([each.points, each.visibility]) for each in found]
    return np.array(rows, np.float32).reshape(-1, 33, 3)


def _face_points(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """Of each face 468 points: x, y, (n, 468, 2)."""
    picture = frames[number]
    found = [_faces().points(picture, square) for square in _faces().squares(picture)]
    return np.array([x for x in found if x is not None], np.float32).reshape(-1, 468, 2)


EXTRACTED: dict[str, Callable[[Sequence[Picture], int], NDArray[np.float32]]] = {
    "masks": _masks,
    "pose": _pose,
    "faces": _face_points,
    "flow": _flow,
}


@cache
def _segmenter() -> PersonSegmenter:
    return PersonSegmenter()


@cache
def _poses() -> PoseEstimator:
    return PoseEstimator()


@cache
def _faces() -> FaceMesh:
    return FaceMesh()
