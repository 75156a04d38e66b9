"""People by the models that gsvc brings: in the whole picture, and where something moves."""

from collections.abc import Sequence

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.object_kinds import PERSON
from gsvc.decoders.analysis.boxes import within
from gsvc.decoders.analysis.sent_people import REACH
from gsvc.decoders.analysis.types import Box, Detection
from gsvc.decoders.people.body_pose import DetectedPose, PoseEstimator

_MOST = 4
"""People that are looked for in the whole picture, and in each place that moves."""
_AROUND = 1.6
"""How much larger the square that is looked at is than the longer side of what moves."""
_LEAST_SIDE = 24
"""Pixels, of what moves, below which nobody is recognised."""
_LEAST_SHARED = 0.3
"""Of a person within what moves there."""


class PeopleFinder:
    """Finds people; the constructor raises MissingModelError without the models."""

    def __init__(self) -> None:
        self._estimate = PoseEstimator(_MOST)

    def __call__(self, picture: Picture, moving: Sequence[Detection]) -> list[Detection]:
        """People in RGB uint8 (H, W, 3); `moving` says where to look closer."""
        found = [_person(pose, 0, 0, picture.shape[1::-1]) for pose in self._estimate(picture)]
        for place in moving:
            if not any(within(one.box, place.box) > _LEAST_SHARED for one in found):
                found += self._near(picture, place.box)
        return found

    def _near(self, picture: Picture, box: Box) -> list[Detection]:
        """The people at a place."""
        side = max(box[2] - box[0], box[3] - box[1])
        if side < _LEAST_SIDE:
            return []
        centre, half = (box[:2] + box[2:]) / 2, _AROUND * side / 2
        left, top = np.maximum(centre - half, 0).astype(int).tolist()
        right, bottom = np.ceil(centre + half).astype(int).tolist()
        crop = np.ascontiguousarray(picture[top:bottom, left:right])
        people = [_person(pose, left, top, picture.shape[1::-1]) for pose in self._estimate(crop)]
        return [one for one in people if within(one.box, box) > _LEAST_SHARED]


def _person(pose: DetectedPose, left: int, top: int, size: tuple[int, int]) -> Detection:
    """The person of a pose in a crop that begins at `left`, `top` of a picture of that size."""
    box = np.array(pose.box) + (left, top, left, top)
    reach = REACH * (box[2:] - box[:2])
    points = pose.points + (left, top)
    inside = ((points >= 0) & (points < size)).all(axis=1)
    score = float(pose.visibility[inside].mean()) if inside.any() else 0.0
    return Detection(PERSON, np.concatenate([box[:2] - reach, box[2:] + reach]), score)
