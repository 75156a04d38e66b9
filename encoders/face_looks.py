"""What is wrong with the finished pictures of an interval, with its faces and without.

In the distance that the encoder goes by, inside the box of each face, and by its landmarks.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.faces import FACES, Face, Faces, face_unit
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.motion.face_shape import Points, points_of
from gsvc.decoders.motion.faces import face_states
from gsvc.encoders.distortion import STRIDE, Judge
from gsvc.encoders.drawn_interval import DrawnInterval
from gsvc.encoders.layers.face_trial import with_faces
from gsvc.encoders.people.face_likeness import FaceLikeness, unlikeness
from gsvc.encoders.people.face_points import FacePoints

_JUDGED = 4
"""Frames of an interval that are looked at, at most."""
_MARGIN = 0.15
"""Of a face's points on each side, for what moves with them."""

Box = tuple[slice, slice]
Slot = tuple[int, int]
"""An interval's number, and a slot of its faces."""


@dataclass
class Look:
    """What is wrong with an interval's finished pictures."""

    total: float = 0.0
    """Distortion over pixels and frames."""
    inside: dict[Slot, float] = field(default_factory=dict)
    """Distortion inside the box of each face, over frames."""
    unlike: dict[Slot, float] = field(default_factory=dict)
    """`unlikeness` of each face, over frames."""

    def add(self, slot: Slot, inside: float, unlike: float) -> None:
        """What a frame adds to a face's."""
        self.inside[slot] = self.inside.get(slot, 0.0) + inside
        self.unlike[slot] = self.unlike.get(slot, 0.0) + unlike


@dataclass
class Seen:
    """An interval without its faces and with them."""

    bare: Look = field(default_factory=Look)
    faced: Look = field(default_factory=Look)

    def gain(self, slot: Slot) -> float:
        """What a face saves inside its box; 0 where its landmarks are farther away with it."""
        if self.faced.unlike[slot] > self.bare.unlike[slot]:
            return 0.0
        return self.bare.inside[slot] - self.faced.inside[slot]


class FaceLooks:
    """Threads may share it."""

    def __init__(self, geometry: Geometry, judge: Judge, find: FacePoints) -> None:
        self._geometry, self._judge = geometry, judge
        self._likeness = FaceLikeness(find)

    def seen(self, number: int, view: DrawnInterval, interval: Interval) -> Seen:
        """An interval under its faces and without, on a few frames; `number`: its slots'."""
        seen, plain = Seen(), with_faces(interval, None)
        boxed = [((number, slot), face) for slot, face in enumerate(_faces(interval)) if face]
        times = view.times(_JUDGED)
        for time in times if boxed else ():
            source, frames = view.source_at(time), view.last / len(times)
            reference = self._judge.reference(source)
            around = [(slot, _points(face, interval, time, self._geometry)) for slot, face in boxed]
            known = [self._likeness.points(source, points) for _, points in around]
            for way, look in ((plain, seen.bare), (interval, seen.faced)):
                drawn = view.picture(way, time)
                distortion = frames * reference.distortion(drawn)
                look.total += float(distortion.sum()) * STRIDE**2
                for (slot, points), true in zip(around, known, strict=True):
                    unlike = unlikeness(true, self._likeness.points(drawn, points))
                    look.add(slot, float(distortion[_box(points)].sum()), frames * unlike)
        return seen


def slots_of(intervals: Sequence[Interval]) -> list[Slot]:
    """Those of all faces."""
    return [
        (n, slot)
        for n, interval in enumerate(intervals)
        for slot, face in enumerate(_faces(interval))
        if face is not None
    ]


def with_some(interval: Interval, number: int, kept: Collection[Slot]) -> Interval:
    """An interval with those of its faces that are kept."""
    each = enumerate(_faces(interval))
    faces: Faces = tuple(one if (number, slot) in kept else None for slot, one in each)
    return with_faces(interval, faces if any(faces) else None)


def _faces(interval: Interval) -> Faces:
    return interval[FACES] or ()


def _points(face: Face, interval: Interval, time: int, geometry: Geometry) -> Points:
    """Of a face at a frame, (points, 2), in pixels."""
    state = face_states(face, interval.place, interval.length, [time])[0]
    return points_of(state) * face_unit(geometry)


def _box(points: Points) -> Box:
    """Around a face's points, in cells of the distortion."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * (high - low)
    ends = np.clip(np.stack([low - margin, high + margin]), 0, 1 << 16) / STRIDE
    (left, top), (right, bottom) = np.rint(ends).astype(int).tolist()
    return slice(top, bottom + 1), slice(left, right + 1)
