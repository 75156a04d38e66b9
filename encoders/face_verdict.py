"""Faces judged at the end: a group is coded with and without them, and the finished pictures tell.

Faces are found between key pictures that are then coded more coarsely to pay for them, so that what
was better may end up worse. An interval's face stays only where the finished pictures come nearer
to the source inside the face's box; all faces go where D + lambda R of the group does not fall.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.faces import FACES, Face, Faces, face_unit
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.motion.face_shape import points_of
from gsvc.decoders.motion.faces import face_states
from gsvc.encoders.distortion import STRIDE, Judge, Reference
from gsvc.encoders.drawn_interval import DrawnInterval
from gsvc.encoders.extraction import Before, SourceInterval, each_before
from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.layers.face_trial import with_faces
from gsvc.encoders.packer import PackedGroup

_JUDGED, _GLANCED = 4, 2
"""Frames looked at beside its key picture, at most, of an interval with faces, and of another."""
_MARGIN = 0.15
"""Of a face's points on each side, for what moves with them."""

Box = tuple[slice, slice]
Slot = tuple[int, int]
"""An interval's number, and a slot of its faces."""
Pack = Callable[[KeyPictures, Sequence[Interval]], PackedGroup]
Repack = Callable[[PackedGroup, Sequence[Interval]], PackedGroup | None]
SourcesOf = Callable[[KeyPictures], list[SourceInterval]]


@dataclass
class _Seen:
    """How far an interval's finished pictures are from the source, with its faces and without."""

    total: float = 0.0
    """Over pixels and frames."""
    bare: float = 0.0
    """The same without faces."""
    faces: dict[Slot, float] = field(default_factory=dict)
    """Inside the box of each face."""
    bare_faces: dict[Slot, float] = field(default_factory=dict)
    """The same without faces."""


class FaceVerdict:
    """Chooses how to code a group in which faces were found."""

    def __init__(
        self,
        before: Before | None,
        sources_of: SourcesOf,
        geometry: Geometry,
        judge: Judge,
        pool: Executor,
    ) -> None:
        """`before`: what precedes the group; `sources_of`: its intervals as key pictures show
        them."""
        self._before, self._sources_of, self._geometry = before, sources_of, geometry
        self._judge, self._pool = judge, pool
        self._references: dict[Slot, Reference] = {}

    def chosen(
        self,
        plain: PackedGroup,
        faced: Sequence[Interval],
        pack: Pack,
        repack: Repack,
        lmbda: float,
    ) -> PackedGroup:
        """The group with the faces of `faced` that hold, or `plain`.

        `pack` codes intervals to the end, at key pictures that it recodes to fit; `repack` gives a
        group other intervals between the same ones, None where these do not leave the bits.
        """
        if not _slots(faced):
            return plain
        # Between the same key pictures nothing but the faces differs; else bits must come from
        # these.
        for make in (partial(repack, plain), partial(pack, plain.keys)):
            try:
                group = make(faced)
            except ConfigError:  # A limit that the group keeps without faces.
                break
            if group is None:
                continue
            group, seen = self._sifted(group, repack)
            if _slots(group.intervals) and self._holds(plain, group, seen, lmbda):
                return group
        return plain

    def _sifted(self, group: PackedGroup, repack: Repack) -> tuple[PackedGroup, list[_Seen]]:
        """The group without the faces whose boxes are better without them, and how it looks."""
        views = self._views(group)
        seen = list(self._pool.map(self._seen, range(len(views)), views, group.intervals))
        worse = {
            slot
            for one in seen
            for slot, distortion in one.faces.items()
            if distortion >= one.bare_faces[slot]
        }
        if worse:
            kept = [_kept(interval, n, worse) for n, interval in enumerate(group.intervals)]
            group = repack(group, kept) or replace(group, intervals=())
            for n in {number for number, _ in worse}:
                seen[n] = self._seen(n, views[n], kept[n])
        return group, seen

    def _holds(
        self, plain: PackedGroup, group: PackedGroup, seen: Sequence[_Seen], lmbda: float
    ) -> bool:
        """Whether the group is better than without faces: in its faces, and for its bits."""
        without = seen
        if group.keys is not plain.keys:
            views = self._views(plain)
            looks = range(len(views)), views, group.intervals
            without = list(self._pool.map(partial(self._seen, only_bare=True), *looks))
        old, new = (sum(sum(f.values()) for f in faces) for faces in (
            (one.bare_faces for one in without), (one.faces for one in seen)
        ))  # fmt: skip
        saved = sum(one.bare for one in without) - sum(one.total for one in seen)
        return new < old and saved > lmbda * (group.bits - plain.bits)

    def _views(self, group: PackedGroup) -> list[DrawnInterval]:
        before, sources = self._before, self._sources_of(group.keys)
        closings = [None if before is None else before.closing]
        closings += [interval.closing_sample for interval in group.intervals]
        parts = sources, each_before(sources, before), group.intervals, closings
        return [DrawnInterval(*one) for one in zip(*parts, strict=False)]

    def _seen(
        self, number: int, view: DrawnInterval, interval: Interval, only_bare: bool = False
    ) -> _Seen:
        """An interval and its key picture, under the faces of `interval` and without."""
        seen, bare = _Seen(), with_faces(interval, None)
        boxed = {(number, slot): face for slot, face in enumerate(_faces(interval)) if face}
        for time, frames in _looks(view, _JUDGED if boxed else _GLANCED):
            reference = self._reference(number, view, time)
            plain = reference.distortion(view.at(bare, time))
            drawn = plain
            if boxed and not only_bare:
                drawn = reference.distortion(view.at(interval, time))
            seen.bare += frames * float(plain.sum()) * STRIDE**2
            seen.total += frames * float(drawn.sum()) * STRIDE**2
            for slot, face in boxed.items():
                box = _box(face, interval, time, self._geometry)
                for sums, values in ((seen.bare_faces, plain), (seen.faces, drawn)):
                    sums[slot] = sums.get(slot, 0.0) + frames * float(values[box].sum())
        return seen

    def _reference(self, number: int, view: DrawnInterval, time: int) -> Reference:
        key = number, time
        if key not in self._references:
            self._references[key] = self._judge.reference(view.source_at(time))
        return self._references[key]


def _looks(view: DrawnInterval, most: int) -> Iterator[tuple[int, float]]:
    """Times that are looked at, and how many frames each stands for."""
    times = view.times(most)
    for time in times:
        yield time, view.last / len(times)
    if view.key_time is not None:
        yield view.key_time, 1.0


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


def _kept(interval: Interval, number: int, dropped: set[Slot]) -> Interval:
    """An interval without the faces that are dropped."""
    each = enumerate(_faces(interval))
    faces = tuple(None if (number, slot) in dropped else one for slot, one in each)
    return with_faces(interval, faces if any(faces) else None)


def _box(face: Face, interval: Interval, time: int, geometry: Geometry) -> Box:
    """Around a face at a frame, in cells of the distortion."""
    state = face_states(face, interval.place, interval.length, [time])[0]
    points = points_of(state) * face_unit(geometry)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * (high - low)
    ends = np.clip(np.stack([low - margin, high + margin]), 0, 1 << 16) / STRIDE
    (left, top), (right, bottom) = np.rint(ends).astype(int).tolist()
    return slice(top, bottom + 1), slice(left, right + 1)
