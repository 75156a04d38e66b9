"""Faces judged at the end: by the finished pictures of a group, with them and without.

A face stays in an interval where the pictures come nearer to the source inside its box and its
landmarks no farther away, and all stay where they save more than their bits would save in key
pictures. Mostly these remain as they are without faces, and later groups make up for the bits: key
pictures that are coded again, a little coarser, come out better here and worse there by more than
faces change. Where the bits are too many, they are, and each face has to be better all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.faces import FACES, Face, Faces, face_unit
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.motion.face_shape import Points, points_of
from gsvc.decoders.motion.faces import face_states
from gsvc.encoders.distortion import STRIDE, Judge
from gsvc.encoders.drawn_interval import DrawnInterval
from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.layers.face_trial import with_faces
from gsvc.encoders.packer import PackedGroup
from gsvc.encoders.people.face_likeness import FaceLikeness, unlikeness
from gsvc.encoders.people.face_points import FacePoints

_JUDGED = 4
"""Frames of an interval that are looked at, at most."""
_MARGIN = 0.15
"""Of a face's points on each side, for what moves with them."""

Box = tuple[slice, slice]
Slot = tuple[int, int]
"""An interval's number, and a slot of its faces."""


@dataclass(frozen=True)
class WaysToPack:
    """How a group may be packed, at its rate."""

    packed: Callable[[KeyPictures, Sequence[Interval]], PackedGroup]
    """With key pictures that are coded again to fit. Raises ConfigError as of `Packer.packed`."""
    repacked: Callable[[PackedGroup, Sequence[Interval]], PackedGroup | None]
    """With other intervals between the same key pictures; None where they take too many bits."""
    views: Callable[[PackedGroup], list[DrawnInterval]]
    """Its intervals as they will be drawn."""


@dataclass
class _Look:
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
class _Seen:
    """An interval without its faces and with them."""

    bare: _Look = field(default_factory=_Look)
    faced: _Look = field(default_factory=_Look)

    def gain(self, slot: Slot) -> float:
        """What a face saves inside its box; 0 where its landmarks are farther away with it."""
        if self.faced.unlike[slot] > self.bare.unlike[slot]:
            return 0.0
        return self.bare.inside[slot] - self.faced.inside[slot]


class FaceVerdict:
    """Chooses how to code a group in which faces were found."""

    def __init__(self, geometry: Geometry, judge: Judge, find: FacePoints, pool: Executor) -> None:
        self._geometry, self._judge, self._pool = geometry, judge, pool
        self._likeness = FaceLikeness(find)

    def chosen(
        self, plain: PackedGroup, faced: Sequence[Interval], ways: WaysToPack, price: float
    ) -> PackedGroup:
        """The group with the faces of `faced` that hold, without those that save least until all
        are worth their bits; or `plain`.

        `price`: the distortion, over pixels and frames, that a bit must save.
        """
        views = ways.views(plain)
        seen = self._looked(views, faced)
        gains = {slot: one.gain(slot) for one in seen.values() for slot in one.faced.inside}
        held = sorted((slot for slot in gains if gains[slot] > 0), key=gains.__getitem__)
        for least in range(len(held)):
            kept = [_kept(interval, n, held[least:]) for n, interval in enumerate(faced)]
            changed = {n for n, _ in set(gains) - set(held[least:])}
            seen |= self._looked(views, kept, changed)
            group = ways.repacked(plain, kept)
            if group is None and not least:
                group = self._recoded(plain, kept, seen, ways)
            saved = sum(one.bare.total - one.faced.total for one in seen.values())
            if group is not None and saved > price * (group.rest - plain.rest):
                return group
        return plain

    def _recoded(
        self,
        plain: PackedGroup,
        faced: Sequence[Interval],
        seen: Mapping[int, _Seen],
        ways: WaysToPack,
    ) -> PackedGroup | None:
        """With coarser key pictures that pay for the faces; None where any face loses by it."""
        try:
            group = ways.packed(plain.keys, faced)
        except ConfigError:  # A limit that the group keeps without faces.
            return None
        for n, one in self._looked(ways.views(group), faced).items():
            if any(_Seen(seen[n].bare, one.faced).gain(slot) <= 0 for slot in one.faced.inside):
                return None
        return group

    def _looked(
        self,
        views: Sequence[DrawnInterval],
        faced: Sequence[Interval],
        numbers: set[int] | None = None,
    ) -> dict[int, _Seen]:
        """By number, intervals under their faces; None: all that have any."""
        chosen = sorted({n for n, _ in _slots(faced)} if numbers is None else numbers)
        looks = self._pool.map(lambda n: self._seen(n, views[n], faced[n]), chosen)
        return dict(zip(chosen, looks, strict=True))

    def _seen(self, number: int, view: DrawnInterval, interval: Interval) -> _Seen:
        """An interval under its faces and without, on a few frames."""
        seen, plain = _Seen(), with_faces(interval, None)
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


def _faces(interval: Interval) -> Faces:
    return interval[FACES] or ()


def _slots(intervals: Sequence[Interval]) -> list[Slot]:
    """Those of all faces."""
    return [
        (n, slot)
        for n, interval in enumerate(intervals)
        for slot, face in enumerate(_faces(interval))
        if face is not None
    ]


def _kept(interval: Interval, number: int, kept: Sequence[Slot]) -> Interval:
    """An interval with those of its faces that are kept."""
    each = enumerate(_faces(interval))
    faces = tuple(one if (number, slot) in kept else None for slot, one in each)
    return with_faces(interval, faces if any(faces) else None)


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
