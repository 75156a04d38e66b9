"""Pose: the people of a frame as integers, each with an identity that lasts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.pose import MAX_PEOPLE, POINTS, POSE, People, Person, pose_unit
from gsvc.codec.bitstream.scaffold import Geometry, Sample
from gsvc.decoders.detection.people import COCO17, DetectedPose, PoseEstimator
from gsvc.encoders.scaffold.extractor import AnchorProbe, Extractor
from gsvc.encoders.tuning import Level

_VISIBLE = 0.5
_SAME_PERSON = 0.5
"""Mean distance of key points, in spans of the person, up to which two poses are one person."""


class PoseExtractor(Extractor):
    """The people of each sample, followed. Raises MissingModelError without its models."""

    layer, has_memory = POSE, True

    def __init__(self, geometry: Geometry, level: Level) -> None:
        super().__init__(geometry, level)
        self._estimate = PoseEstimator()
        self._people: People = ()

    def observe(
        self, sources: Sequence[Picture], samples: list[Sample], *, semantics: bool
    ) -> list[Sample]:
        """The people at the end, then in the middle; with a scene, identities start again."""
        if len(sources) == 1:
            self._people = ()
        found = [
            sample.having(POSE, self._followed(sources[sample.offset]) if semantics else ())
            for sample in reversed(samples)
        ]
        return found[::-1]

    def improve(self, probe: AnchorProbe, anchor: Sample) -> Sample:
        """The motion of limbs, if it pays."""
        people = anchor[POSE]
        if not people:
            return anchor
        moving = tuple(replace(person, moves_picture=True) for person in people)
        return probe.better(anchor, anchor.having(POSE, moving))

    def _followed(self, picture: Picture) -> People:
        """The people of `picture` (RGB uint8), with the identities that they had."""
        people: list[Person] = []
        unmatched = list(self._people)
        for pose in self._estimate(picture)[:MAX_PEOPLE]:
            person = pose_integers(pose, self._geometry)
            if not person.visible.any():
                continue
            old = min(unmatched, key=lambda p: _distance(p, person), default=None)
            if old is not None and _distance(old, person) < _SAME_PERSON:
                unmatched.remove(old)
                people.append(steady(old, person))
            else:
                taken = {p.identity for p in (*people, *self._people)}
                identity = next(k for k in range(2 * MAX_PEOPLE) if k not in taken)
                if identity < MAX_PEOPLE:
                    people.append(replace(person, identity=identity))
        self._people = tuple(people)
        return self._people


def pose_integers(pose: DetectedPose, geometry: Geometry) -> Person:
    """A pose in pose units, under the identity 0; no point is visible outside of the picture."""
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


def steady(old: Person, new: Person) -> Person:
    """`new` under `old`'s identity. A point that moved by one unit at most stays: that is noise."""
    points = new.points.copy()
    still = old.visible & new.visible & (np.abs(new.points - old.points).max(1) <= 1)
    points[still] = old.points[still]
    return Person(old.identity, points, new.visible)
