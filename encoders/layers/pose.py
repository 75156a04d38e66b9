"""Pose: the people of a frame as integers, each with an identity that lasts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.pose import MAX_PEOPLE, POINTS, POSE, People, Person, pose_unit
from gsvc.codec.scaffold.types import Sample
from gsvc.encoders.anchor_trial import AnchorTrial
from gsvc.encoders.layers.extractor import Observed
from gsvc.encoders.people.body_pose import COCO17, DetectedPose, PoseEstimator
from gsvc.encoders.tuning import Level

_VISIBLE = 0.5
_SAME_PERSON = 0.5
"""Mean distance of key points, in spans of the person, up to which two poses are one person."""


class PoseExtractor:
    """The people of each sample; see `Extractor`. Raises MissingModelError without its models."""

    layer, has_memory = POSE, True

    def __init__(self, geometry: Geometry, _level: Level) -> None:
        self._track, self._geometry = PoseTracker(), geometry

    def begin_scene(self, picture: Picture, sample: Sample, *, watching: bool) -> Sample:
        """People's identities start again."""
        self._track.forget()
        return sample.having(POSE, self._people(picture, watching))

    def observe(self, sources: Sequence[Picture], found: Observed, *, watching: bool) -> Observed:
        """The people at the end and in the middle."""
        end = found.end.having(POSE, self._people(sources[-1], watching))
        middle = found.middle
        if middle is not None:
            middle = middle.having(POSE, self._people(sources[middle.offset], watching))
        return Observed(middle, end)

    def settle(self, trial: AnchorTrial, anchor: Sample) -> None:
        """People stay whether they pay or not: they are what the stream is read for."""

    def improve(self, trial: AnchorTrial, anchor: Sample) -> Sample:
        """The motion of limbs, if it pays."""
        people = anchor[POSE]
        if not people:
            return anchor
        moving = tuple(replace(person, moves_picture=True) for person in people)
        return trial.better(anchor, anchor.having(POSE, moving))

    def says_something(self, sample: Sample) -> bool:
        """Whether there is anyone."""
        people = sample[POSE]
        return bool(people)

    def _people(self, picture: Picture, watching: bool) -> People:
        return self._track(picture, self._geometry) if watching else ()


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
    integers[visible] = np.rint(points[visible] / pose_unit(geometry)).astype(np.int16)
    return Person(0, integers, visible)


def _distance(a: Person, b: Person) -> float:
    both = a.visible & b.visible
    if not both.any():
        return float("inf")
    first, second = a.points[both].astype(float), b.points[both].astype(float)
    span = max(4.0, float(np.ptp(second, axis=0).max()))
    return float(np.linalg.norm(first - second, axis=1).mean()) / span


def _steady(old: Person, new: Person) -> Person:
    """`new` under `old`'s identity. A point that moved by one unit at most stays: that is noise."""
    points = new.points.copy()
    still = old.visible & new.visible & (np.abs(new.points - old.points).max(1) <= 1)
    points[still] = old.points[still]
    return Person(old.identity, points, new.visible)
