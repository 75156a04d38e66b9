"""Rate-distortion decision on faces: by the finished pictures, with them and without.

A face stays in an interval where the pictures come nearer to the source inside its box and its
landmarks no farther away, and all stay where they save more than their bits would save in
keyframes. Mostly these remain as they are without faces, in later groups, too, and a rate is
exceeded a little: keyframes that are coded again, a little coarser, come out better here and
worse there by more than faces change. Where the bits are too many, they are, and each face has to
be better all the same.

Without look-ahead the faces of an interval are found and judged when its keyframe comes: its frames
are at hand then, and so are the coded pictures around them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.faces import FACES, Face, Faces, face_unit
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Site
from gsvc.decoders.interpolation.face_motion import Points, face_states, points_of
from gsvc.encoders.coding.group_coder import CodingConfig
from gsvc.encoders.coding.keyframes import Keyframes
from gsvc.encoders.coding.packer import PackedGroup
from gsvc.encoders.scaffold.extraction import Before, RenderedInterval
from gsvc.encoders.scaffold.face_extractor import FaceExtractor, with_faces
from gsvc.encoders.scaffold.face_landmarks import FaceMesh, LandmarkFinder, landmark_error
from gsvc.encoders.search.distortion import STRIDE, Distortion

_JUDGED = 4
"""Frames of an interval that are looked at, at most."""
_MARGIN = 0.15
"""Of a face's points on each side, for what moves with them."""

Box = tuple[slice, slice]
Slot = tuple[int, int]
"""An interval's number, and a slot of its faces."""


@dataclass
class FaceErrors:
    """What is wrong with an interval's finished pictures."""

    total: float = 0.0
    """Distortion over pixels and frames."""
    inside: dict[Slot, float] = field(default_factory=dict)
    """Distortion inside the box of each face, over frames."""
    landmarks: dict[Slot, float] = field(default_factory=dict)
    """`landmark_error` of each face, over frames."""

    def add(self, slot: Slot, inside: float, error: float) -> None:
        """What a frame adds to a face's."""
        self.inside[slot] = self.inside.get(slot, 0.0) + inside
        self.landmarks[slot] = self.landmarks.get(slot, 0.0) + error


@dataclass
class FaceComparison:
    """An interval without its faces and with them."""

    bare: FaceErrors = field(default_factory=FaceErrors)
    faced: FaceErrors = field(default_factory=FaceErrors)

    def gain(self, slot: Slot) -> float:
        """What a face saves inside its box; 0 where its landmarks are farther away with it."""
        if self.faced.landmarks[slot] > self.bare.landmarks[slot]:
            return 0.0
        return self.bare.inside[slot] - self.faced.inside[slot]


class FaceComparer:
    """Threads may share it."""

    def __init__(self, geometry: Geometry, distortion: Distortion, find: FaceMesh) -> None:
        self._geometry, self._distortion = geometry, distortion
        self._likeness = LandmarkFinder(find)

    def seen(self, number: int, view: RenderedInterval, interval: Interval) -> FaceComparison:
        """An interval under its faces and without, on a few frames; `number`: its slots'."""
        seen, plain = FaceComparison(), with_faces(interval, None)
        boxed = [((number, slot), face) for slot, face in enumerate(_faces(interval)) if face]
        times = view.times(_JUDGED)
        for time in times if boxed else ():
            source, frames = view.source_at(time), view.last / len(times)
            reference = self._distortion.reference(source)
            around = [(slot, _points(face, interval, time, self._geometry)) for slot, face in boxed]
            known = [self._likeness.points(source, points) for _, points in around]
            for way, look in ((plain, seen.bare), (interval, seen.faced)):
                drawn = view.picture(way, time)
                distortion = frames * reference.distortion(drawn)
                look.total += float(distortion.sum()) * STRIDE**2
                for (slot, points), true in zip(around, known, strict=True):
                    error = landmark_error(true, self._likeness.points(drawn, points))
                    look.add(slot, float(distortion[_box(points)].sum()), frames * error)
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


def _fewer_and_fewer(gains: Mapping[Slot, float]) -> Iterator[list[Slot]]:
    """The faces that gain anything, then without the one that gains least, down to the best."""
    held = sorted((slot for slot in gains if gains[slot] > 0), key=gains.__getitem__)
    return (held[least:] for least in range(len(held)))


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


@dataclass(frozen=True)
class WaysToPack:
    """How a group may be packed, at its rate."""

    packed: Callable[[Keyframes, Sequence[Interval]], PackedGroup]
    """With coded pictures that are coded again to fit. Raises ConfigError as of `Packer.packed`."""
    repacked: Callable[[PackedGroup, Sequence[Interval]], PackedGroup | None]
    """With other intervals between the same coded pictures; None where they take too many bits."""
    views: Callable[[PackedGroup], list[RenderedInterval]]
    """Its intervals as they will be drawn."""


class FaceRdo:
    """Chooses how to code a group in which faces were found."""

    def __init__(
        self, geometry: Geometry, distortion: Distortion, find: FaceMesh, pool: Executor
    ) -> None:
        self._pool, self._comparer = pool, FaceComparer(geometry, distortion, find)

    def chosen(
        self, plain: PackedGroup, faced: Sequence[Interval], ways: WaysToPack, price: float
    ) -> PackedGroup:
        """The group with the faces of `faced` that hold, without those that save least until all
        are worth their bits; or `plain`.

        `price`: the distortion, over pixels and frames, that a bit must save.
        """
        views = ways.views(plain)
        seen = self._compared(views, faced)
        gains = {slot: one.gain(slot) for one in seen.values() for slot in one.faced.inside}
        for attempt, slots in enumerate(_fewer_and_fewer(gains)):
            kept = [with_some(interval, n, slots) for n, interval in enumerate(faced)]
            seen |= self._compared(views, kept, {n for n, _ in set(gains) - set(slots)})
            group = ways.repacked(plain, kept)
            if group is None and not attempt:
                group = self._recoded(plain, kept, seen, ways)
            saved = sum(one.bare.total - one.faced.total for one in seen.values())
            if group is not None and saved > price * (group.rest - plain.rest):
                return group
        return plain

    def _recoded(
        self,
        plain: PackedGroup,
        faced: Sequence[Interval],
        seen: Mapping[int, FaceComparison],
        ways: WaysToPack,
    ) -> PackedGroup | None:
        """With coarser coded pictures that pay for the faces; None where any face loses by it."""
        try:
            group = ways.packed(plain.keys, faced)
        except ConfigError:  # A limit that the group keeps without faces.
            return None
        for n, one in self._compared(ways.views(group), faced).items():
            if any(
                FaceComparison(seen[n].bare, one.faced).gain(slot) <= 0 for slot in one.faced.inside
            ):
                return None
        return group

    def _compared(
        self,
        views: Sequence[RenderedInterval],
        faced: Sequence[Interval],
        numbers: set[int] | None = None,
    ) -> dict[int, FaceComparison]:
        """By number, intervals under their faces; None: all that have any."""
        chosen = sorted({n for n, _ in slots_of(faced)} if numbers is None else numbers)
        looks = self._pool.map(lambda n: self._comparer.seen(n, views[n], faced[n]), chosen)
        return dict(zip(chosen, looks, strict=True))


_MOST_PIXELS = 640 * 360 * 30
"""A second, of video that a processor of today codes with faces as fast as it comes."""


class LiveFaces:
    """Finds and judges the faces of one interval after the other."""

    def __init__(
        self, geometry: Geometry, distortion: Distortion, find: FaceMesh, pool: Executor
    ) -> None:
        self._geometry, self._find = geometry, find
        self._extractor = FaceExtractor(geometry, distortion, find, pool)
        self._comparer = FaceComparer(geometry, distortion, find)

    def in_sight(self, picture: Picture) -> bool:
        """Whether RGB uint8 (H, W, 3) shows a face: a group that opens without one has no layer."""
        squares = self._find.squares(picture)
        return any(self._find.points(picture, square) is not None for square in squares)

    def added(
        self, view: RenderedInterval, before: Before, last: Faces | None, price: float
    ) -> Interval:
        """The interval of `view` with the faces that hold in its finished pictures, without those
        that save least until all are worth their bits.

        `before`: what precedes it; `last`: the faces of the interval before in its group; `price`:
        the distortion, over pixels and frames, that a bit must save.
        """
        plain = view.interval
        (faced,) = self._extractor.added([view], before, price, last)
        seen = self._comparer.seen(0, view, faced)
        gains = {slot: seen.gain(slot) for slot in seen.faced.inside}
        for slots in _fewer_and_fewer(gains):
            kept = with_some(faced, 0, slots)
            if len(slots) < len(gains):
                seen = self._comparer.seen(0, view, kept)
            bits = FACES.bits(Site(self._geometry, plain.place, plain.length), last, kept[FACES])
            if seen.bare.total - seen.faced.total > price * bits:
                return kept
        return plain


def live_faces(config: CodingConfig, distortion: Distortion, pool: Executor) -> LiveFaces | None:
    """None where faces are not to be sent, a model is not here or the video is too large."""
    form = config.header.format
    if form.width * form.height * form.frame_rate > _MOST_PIXELS:
        return None
    find = config.face_points(distortion)
    return None if find is None else LiveFaces(config.header.geometry, distortion, find, pool)
