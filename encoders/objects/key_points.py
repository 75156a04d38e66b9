"""Key points of the people that are followed, each in a square of the source around them."""

from collections.abc import Mapping

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.object_kinds import PERSON
from gsvc.codec.scaffold.layers.pose import MAX_PEOPLE, People, Person
from gsvc.decoders.analysis.types import Box
from gsvc.decoders.people.body_pose import DetectedPose, PoseEstimator
from gsvc.encoders.layers.pose import pose_integers, steady
from gsvc.encoders.objects.anchors import SeenObject

_AROUND = 1.5
"""How much larger the square that is looked at is than the longer side of a person."""


class KeyPointFinder:
    """Finds the key points of people. Raises MissingModelError without the models."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._estimate = PoseEstimator(1)
        self._people: dict[int, Person] = {}
        """By track, at the last call."""

    def __call__(self, picture: Picture, objects: Mapping[int, SeenObject]) -> People:
        """The largest people of a picture, RGB uint8 (H, W, 3), where objects are seen."""
        found: dict[int, Person] = {}
        people = [(track, one) for track, one in objects.items() if one.kind == PERSON]
        people.sort(key=lambda pair: -float(np.prod(pair[1].box[2:] - pair[1].box[:2])))
        for track, one in people[:MAX_PEOPLE]:
            pose = self._pose(picture, one.box)
            if pose is None:
                continue
            person = pose_integers(pose, self._geometry)
            if person.visible.any():
                found[track] = person
        old, self._people = self._people, {}
        taken = {old[track].identity for track in found if track in old}
        free = [k for k in range(MAX_PEOPLE) if k not in taken]
        for track, person in found.items():
            fresh = Person(free.pop(0), person.points, person.visible) if track not in old else None
            self._people[track] = fresh or steady(old[track], person)
        return tuple(self._people.values())

    def _pose(self, picture: Picture, box: Box) -> DetectedPose | None:
        centre = (box[:2] + box[2:]) / 2
        half = _AROUND * float(np.max(box[2:] - box[:2])) / 2
        left, top = np.maximum(centre - half, 0).astype(int).tolist()
        right, bottom = np.ceil(centre + half).astype(int).tolist()
        poses = self._estimate(np.ascontiguousarray(picture[top:bottom, left:right]))
        if not poses:
            return None
        pose = poses[0]
        moved = pose.points + np.array([left, top], np.float32)
        return DetectedPose(moved, pose.visibility, pose.box)
