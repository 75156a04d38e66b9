"""Pose: the people of a frame as integers, each with an identity that lasts."""

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.codec.limits import MAX_PEOPLE
from gsvc.codec.scaffold.types import POINTS, Geometry, Person
from gsvc.encoders.people.body_pose import COCO17, DetectedPose, PoseEstimator

_VISIBLE = 0.5
_SAME_PERSON = 0.5
"""Mean distance of key points, in spans of the person, up to which two poses are one person."""


class PoseTracker:
    """Finds people and follows them from sample to sample."""

    def __init__(self) -> None:
        self._estimate = PoseEstimator()
        self._people: tuple[Person, ...] = ()

    def forget(self) -> None:
        """Begin a new scene: identities start again."""
        self._people = ()

    def __call__(self, picture: Picture, geometry: Geometry) -> tuple[Person, ...]:
        """The people of `picture` (RGB uint8), at display size."""
        people: list[Person] = []
        unmatched = list(self._people)
        for pose in self._estimate(picture)[:MAX_PEOPLE]:
            person = _to_integers(pose, geometry)
            if not person.visible.any():
                continue
            old = min(unmatched, key=lambda p: _distance(p, person), default=None)
            if old is not None and _distance(old, person) < _SAME_PERSON:
                unmatched.remove(old)
                people.append(_steady(old, person))
            else:
                taken = {p.identity for p in (*people, *self._people)}
                identity = next(k for k in range(2 * MAX_PEOPLE) if k not in taken)
                if identity < MAX_PEOPLE:
                    people.append(Person(identity, person.points, person.visible))
        self._people = tuple(people)
        return self._people


def _to_integers(pose: DetectedPose, geometry: Geometry) -> Person:
    points = pose.points[list(COCO17)]
    inside = ((points >= 0) & (points < (geometry.width, geometry.height))).all(1)
    visible = inside & (pose.visibility[list(COCO17)] > _VISIBLE)
    integers = np.zeros((POINTS, 2), np.int16)
    integers[visible] = np.rint(points[visible] / geometry.pose_unit).astype(np.int16)
    return Person(0, integers, visible)


def _distance(a: Person, b: Person) -> float:
    both = a.visible & b.visible
    if not both.any():
        return float("inf")
    first, second = a.points[both].astype(float), b.points[both].astype(float)
    span = max(4.0, float(np.ptp(second, axis=0).max()))
    return float(np.linalg.norm(first - second, axis=1).mean()) / span


def _steady(old: Person, new: Person) -> Person:
    """`new` under `old`'s identity; a point that trembles by one unit stays: noise is not worth bits."""
    points = new.points.copy()
    still = old.visible & new.visible & (np.abs(new.points - old.points).max(1) <= 1)
    points[still] = old.points[still]
    return Person(old.identity, points, new.visible)
