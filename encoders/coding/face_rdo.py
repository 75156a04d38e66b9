"""Faces: their motion in the source, and the rate-distortion decision on sending it.

A face is offered where D + lambda R falls, or where the error of the mouth's opening halves and D
does not rise by more than its bits are worth. The finished pictures, with it and without, decide: a
face stays where they come nearer to the source inside its box and its landmarks no farther away,
and all stay where they save more than their bits would save in keyframes. Keyframes mostly stay as
they are, and the rate is exceeded a little: coding them again, a little coarser, would change the
pictures by more than faces do. Only if the bits exceed the budget they are coded again, and every
face must still improve its frames.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.camera import CAMERA, camera_nodes, camera_unit
from gsvc.codec.bitstream.layers.faces import (
    FACES,
    MAX_FACES,
    MAX_NUMBER,
    POSE_NUMBERS,
    Face,
    Faces,
    face_unit,
)
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Site
from gsvc.decoders.interpolation.scaffold_motion import (
    Points,
    corners_at,
    face_states,
    openings,
    points_of,
    states_of,
)
from gsvc.encoders.coding.keyframes import Keyframes
from gsvc.encoders.coding.packer import PackedGroup
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.distortion import STRIDE, Distortion
from gsvc.encoders.face_landmarks import FaceMesh, face_tracks, landmark_error
from gsvc.encoders.frame_buffer import JoinedFrames
from gsvc.encoders.scaffold.extraction import KeyBefore, RenderedInterval

_FORMS = (2, 1.0, True), (2, 2.0, True), (2, 1.5, False), (1, 1.0, True)
"""Codings of a face: step of nodes, least change that is sent, and whether with the pose."""


class _Care(NamedTuple):
    """How much faces are looked at."""

    forms: Sequence[tuple[int, float, bool]]
    """Codings that are tried."""
    offers: int
    """Frames of an interval that offers are judged by, at most: what is chosen is judged again."""
    chosen: int
    """Frames that the finished pictures are judged by, at most."""
    step: int
    """Every so many frames a face is followed."""


_CAREFUL, _ROUGH = _Care(_FORMS, 2, 4, 1), _Care(_FORMS[:1], 1, 1, 2)
_MOVES = 0.008
"""Mean deviation of points from even motion, in eye distances, below which a face is left alone."""
_SPEAKS = 0.015
"""Deviation of the mouth's opening from even motion, in the same distance, from which it speaks."""
_HALVED = 0.5
_MARGIN = 0.15
"""Share of a face's extent that its box gets on each side, for what moves with its points."""

States = NDArray[np.float64]
Box = tuple[slice, slice]
Slot = tuple[int, int]
"""An interval's number, and a slot of its faces."""


@dataclass(frozen=True)
class _FaceMotion:
    """A face over an interval, in face units."""

    start: States
    end: States
    states: States
    """(frames, 10): of the frames drawn, by time as of `camera_nodes`, from 1 on."""


@dataclass(frozen=True)
class _Offer:
    """A face of an interval, and the distortion that it saves."""

    motion: _FaceMotion
    saved: list[float]
    """Distortion that each coding tried saves, over pixels and frames."""


@dataclass
class FaceErrors:
    """Errors of an interval's finished pictures."""

    total: float = 0.0
    """Distortion over pixels and frames."""
    inside: dict[Slot, float] = field(default_factory=lambda: defaultdict(float))
    """Distortion inside the box of each face, over frames."""
    landmarks: dict[Slot, float] = field(default_factory=lambda: defaultdict(float))
    """`landmark_error` of each face, over frames."""


@dataclass
class FaceComparison:
    """An interval without its faces and with them."""

    bare: FaceErrors = field(default_factory=FaceErrors)
    faced: FaceErrors = field(default_factory=FaceErrors)

    def gain(self, slot: Slot) -> float:
        """Distortion that a face saves inside its box; 0 if its landmarks end up farther away."""
        if self.faced.landmarks[slot] > self.bare.landmarks[slot]:
            return 0.0
        return self.bare.inside[slot] - self.faced.inside[slot]


@dataclass(frozen=True)
class WaysToPack:
    """Ways to pack a group at its rate."""

    packed: Callable[[Keyframes, Sequence[Interval]], PackedGroup]
    """Codes the pictures again to fit. Raises ConfigError as of `Packer.packed`."""
    repacked: Callable[[PackedGroup, Sequence[Interval]], PackedGroup | None]
    """Puts other intervals between the same coded pictures; None if they take too many bits."""
    views: Callable[[PackedGroup], list[RenderedInterval]]
    """Renders the intervals of a packed group."""


class FaceRdo:
    """Finds the faces of a group's intervals and judges them in finished pictures."""

    def __init__(
        self,
        geometry: Geometry,
        distortion: Distortion,
        find: FaceMesh,
        pool: Executor,
        *,
        is_rough: bool = False,
    ) -> None:
        """`is_rough`: as of `Effort`."""
        self._geometry, self._distortion, self._find, self._pool = geometry, distortion, find, pool
        self._care = _ROUGH if is_rough else _CAREFUL

    def added(
        self,
        views: Sequence[RenderedInterval],
        before: KeyBefore | None,
        lmbda: float,
        last: Faces | None = None,
    ) -> list[Interval]:
        """The intervals of a group, with the faces that pay.

        `views`: these intervals; `before`: what precedes them; `lmbda`: the distortion, over pixels
        and frames, that a bit must save; `last`: the faces that the group coded before these.
        """
        first = [] if before is None else [before.source]
        pictures = JoinedFrames(first, *(view.sources for view in views))
        tracks = face_tracks(pictures, self._find, self._care.step)
        found, start = [], 0 if before is not None else -1
        motions: list[list[_FaceMotion | None]] = []
        for view in views:
            motions.append([self._motion(track, start, view.interval) for track in tracks])
            start += view.interval.length
        for view, offers in zip(views, self._pool.map(self._offered, views, motions), strict=True):
            found.append(self._faced(view.interval, offers, last, lmbda))
            last = found[-1][FACES]
        return found

    def _motion(self, track: Points, start: int, interval: Interval) -> _FaceMotion | None:
        """A track over the interval after the picture `start`; None where it is lost or even."""
        place, length = interval.place, interval.length
        times = range(1, length + (place is Place.AFTER))
        if not times:
            return None
        keys = {Place.BETWEEN: (start, start + length), Place.BEFORE: (start + length,) * 2}
        left, right = keys.get(place, (start, start))
        sign, origin = (-1, right) if place is Place.BEFORE else (1, left)
        points = track[[origin + sign * time for time in times]]
        if not (np.isfinite(points).all() and np.isfinite(track[[left, right]]).all()):
            return None
        unit = face_unit(self._geometry)
        ends = np.clip(np.rint(states_of(track[[left, right]] / unit)), -MAX_NUMBER, MAX_NUMBER)
        moved = _along(points, interval, times, self._geometry)
        motion = _FaceMotion(ends[0], ends[1], states_of(moved / unit))
        even = _straight(motion, place, length)
        apart = np.linalg.norm(points_of(even) - points_of(motion.states), axis=-1).mean()
        return motion if apart > _MOVES * np.hypot(*ends[0, 2:POSE_NUMBERS]) else None

    def _offered(
        self, drawn: RenderedInterval, motions: Sequence[_FaceMotion | None]
    ) -> list[_Offer | None]:
        """Offers of the faces of an interval, each by itself: faces hardly overlap."""
        if not any(motions) or drawn.interval.dissolves:
            return []
        place, length = drawn.interval.place, drawn.interval.length
        tried = self._care.forms
        coded = [
            None if one is None else [_coded(one, place, length, *form) for form in tried]
            for one in motions
        ]
        ways: list[Faces | None] = [None]
        blank: Faces = (None,) * MAX_FACES
        for slot, forms in enumerate(coded):
            ways += [(*blank[:slot], face, *blank[slot + 1 :]) for face in forms or ()]
        none, *each = self._distortions(drawn, ways)
        left = iter(each)
        return [
            None if one is None else _Offer(one, [none - next(left) for _ in tried])
            for one in motions
        ]

    def _distortions(self, drawn: RenderedInterval, ways: Sequence[Faces | None]) -> list[float]:
        """Distortion of the frames drawn, each way summed over pixels and frames."""
        intervals = [with_faces(drawn.interval, faces) for faces in ways]
        sums, times = [0.0] * len(ways), drawn.times(self._care.offers)
        # Motion is found once for all that is drawn of a frame.
        for time in times:
            reference = self._distortion.reference(drawn.source_at(time))
            for n, interval in enumerate(intervals):
                sums[n] += reference.total(drawn.picture(interval, time))
        return [one * drawn.last / len(times) for one in sums]

    def _faced(
        self, interval: Interval, offers: Sequence[_Offer | None], last: Faces | None, lmbda: float
    ) -> Interval:
        """The interval with each of the faces that is worth it, one after the other."""
        site = Site(self._geometry, interval.place, interval.length)
        faces: Faces = (None,) * MAX_FACES
        spent = 0.0
        for slot, offer in enumerate(offers):
            if offer is None:
                continue
            motion, old = offer.motion, last[slot] if last else None
            if old is not None and np.abs(motion.start - old.end).max() <= 1:
                motion = replace(motion, start=old.end.astype(np.float64))  # makes no difference
            forms = [_coded(motion, site.place, site.length, *form) for form in self._care.forms]
            probes = [(*faces[:slot], face, *faces[slot + 1 :]) for face in forms]
            bits = [FACES.bits(site, last, one) - spent for one in probes]
            gains = [saved - lmbda * more for saved, more in zip(offer.saved, bits, strict=True)]
            best = int(np.argmax(gains))
            if gains[best] > 0 or (
                offer.saved[best] + lmbda * bits[best] > 0 and _halves(motion, forms[best], site)
            ):
                faces, spent = probes[best], spent + bits[best]
        return with_faces(interval, faces) if any(faces) else interval

    def chosen(
        self,
        plain: PackedGroup,
        views: Sequence[RenderedInterval],
        faced: Sequence[Interval],
        ways: WaysToPack,
        price: float,
    ) -> PackedGroup:
        """The group with the faces of `faced` that hold, without those that save least until all
        are worth their bits; or `plain`.

        `views`: of `plain`; `price`: the distortion, over pixels and frames, that a bit must save.
        """
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

    def _compared(
        self,
        views: Sequence[RenderedInterval],
        faced: Sequence[Interval],
        numbers: set[int] | None = None,
    ) -> dict[int, FaceComparison]:
        """Comparisons by interval; `numbers`: intervals to compare, None: all with faces."""
        shown = {n for n, interval in enumerate(faced) if any(_faces(interval))}
        chosen = sorted(shown if numbers is None else numbers)
        looks = self._pool.map(lambda n: self._seen(n, views[n], faced[n]), chosen)
        return dict(zip(chosen, looks, strict=True))

    def _seen(self, number: int, view: RenderedInterval, interval: Interval) -> FaceComparison:
        """An interval under its faces and without, on a few frames; `number`: its slots'."""
        seen, plain = FaceComparison(), with_faces(interval, None)
        boxed = [((number, slot), face) for slot, face in enumerate(_faces(interval)) if face]
        times = view.times(self._care.chosen)
        for time in times if boxed else ():
            source, frames = view.source_at(time), view.last / len(times)
            reference = self._distortion.reference(source)
            around = [(slot, _points(face, interval, time, self._geometry)) for slot, face in boxed]
            known = [self._find.near(source, points) for _, points in around]
            for way, look in ((plain, seen.bare), (interval, seen.faced)):
                drawn = view.picture(way, time)
                distortion = frames * reference.distortion(drawn)
                look.total += float(distortion.sum()) * STRIDE**2
                for (slot, points), true in zip(around, known, strict=True):
                    error = landmark_error(true, self._find.near(drawn, points))
                    look.inside[slot] += float(distortion[_box(points)].sum())
                    look.landmarks[slot] += frames * error
        return seen

    def _recoded(
        self,
        plain: PackedGroup,
        faced: Sequence[Interval],
        seen: Mapping[int, FaceComparison],
        ways: WaysToPack,
    ) -> PackedGroup | None:
        """The group with coarser pictures that pay for the faces; None if any face loses by it."""
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


def with_faces(interval: Interval, faces: Faces | None) -> Interval:
    """The interval with these faces in place of its own."""
    return replace(interval, values={**interval.values, FACES: faces})


def _along(points: Points, interval: Interval, times: Sequence[int], geometry: Geometry) -> Points:
    """Points, (times, points, 2), less what the camera's path does to them."""
    camera = interval[CAMERA]
    if camera is None:
        return points
    corners = corners_at(camera, interval.place, interval.length, times) * camera_unit(geometry)
    share = points / (max(1, geometry.width - 1), max(1, geometry.height - 1))
    start, right, down = (corners[:, None, k] for k in range(3))
    return np.asarray(
        points + start + share[..., :1] * (right - start) + share[..., 1:] * (down - start)
    )


def _straight(motion: _FaceMotion, place: Place, length: int) -> States:
    """The states of even motion at the frames of an interval."""
    times = np.arange(1, len(motion.states) + 1)[:, None]
    share = times / length if place is Place.BETWEEN else np.zeros_like(times)
    return np.asarray((1 - share) * motion.start + share * motion.end)


def _coded(
    motion: _FaceMotion, place: Place, length: int, step_log2: int, change: float, posed: bool
) -> Face:
    """A face as integers; a number that changes by less than `change` stays as it was."""
    nodes = camera_nodes(place, length, step_log2)
    times = np.arange(1, len(motion.states) + 1)
    ends = [length] if place is Place.BETWEEN else []
    hats = [np.interp(times, [0, *nodes, *ends], row) for row in np.eye(1 + len(nodes) + len(ends))]
    basis = np.array(hats)[1 : 1 + len(nodes)].T.reshape(len(times), len(nodes))
    bends = np.linalg.lstsq(basis, motion.states - _straight(motion, place, length), rcond=None)[0]
    if not posed:
        bends[:, :POSE_NUMBERS] = 0
    last = np.zeros(bends.shape[1])
    for node, wanted in enumerate(bends):
        last = np.where(np.abs(wanted - last) < change, last, np.rint(wanted))
        bends[node] = last
    whole = [
        np.clip(one, -MAX_NUMBER, MAX_NUMBER).astype(np.int32)
        for one in (motion.start, motion.end, bends)
    ]
    return Face(whole[0], whole[1], step_log2, whole[2])


def _halves(motion: _FaceMotion, face: Face, site: Site) -> bool:
    """Whether the mouth speaks, and the error of its opening is half of what it is without."""
    drawn = openings(face_states(face, site.place, site.length, range(1, len(motion.states) + 1)))
    even = openings(_straight(motion, site.place, site.length))
    wanted = openings(motion.states)
    without, left = (float(np.sqrt(np.mean((one - wanted) ** 2))) for one in (even, drawn))
    return without >= _SPEAKS and left <= _HALVED * without


def _fewer_and_fewer(gains: Mapping[Slot, float]) -> Iterator[list[Slot]]:
    """The faces that gain anything, then without the one that gains least, down to the best."""
    held = sorted((slot for slot in gains if gains[slot] > 0), key=gains.__getitem__)
    return (held[least:] for least in range(len(held)))


def with_some(interval: Interval, number: int, kept: Collection[Slot]) -> Interval:
    """An interval with those of its faces that are kept."""
    each = enumerate(_faces(interval))
    faces: Faces = tuple(one if (number, slot) in kept else None for slot, one in each)
    return with_faces(interval, faces if any(faces) else None)


def _faces(interval: Interval) -> Faces:
    return interval[FACES] or ()


def _points(face: Face, interval: Interval, time: int, geometry: Geometry) -> Points:
    """Points of a face at a frame, (points, 2), in pixels."""
    state = face_states(face, interval.place, interval.length, [time])[0]
    return points_of(state) * face_unit(geometry)


def _box(points: Points) -> Box:
    """Around a face's points, in cells of the distortion."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * (high - low)
    ends = np.clip(np.stack([low - margin, high + margin]), 0, 1 << 16) / STRIDE
    (left, top), (right, bottom) = np.rint(ends).astype(int).tolist()
    return slice(top, bottom + 1), slice(left, right + 1)


_MOST_PIXELS = 640 * 360 * 30
"""A second, of video that a processor of today codes with faces as fast as it comes."""


class LiveFaces(FaceRdo):
    """Finds and judges the faces of one interval after the other."""

    def in_sight(self, picture: Picture) -> bool:
        """Whether RGB uint8 (H, W, 3) shows a face: a group that opens without one has no layer."""
        squares = self._find.squares(picture)
        return any(self._find.points(picture, square) is not None for square in squares)

    def judged(
        self, view: RenderedInterval, before: KeyBefore, last: Faces | None, price: float
    ) -> Interval:
        """The interval of `view` with the faces that hold in its finished pictures, without those
        that save least until all are worth their bits.

        `before`: what precedes it; `last`: the faces of the interval before in its group; `price`:
        the distortion, over pixels and frames, that a bit must save.
        """
        plain = view.interval
        (faced,) = self.added([view], before, price, last)
        seen = self._seen(0, view, faced)
        gains = {slot: seen.gain(slot) for slot in seen.faced.inside}
        for slots in _fewer_and_fewer(gains):
            kept = with_some(faced, 0, slots)
            if len(slots) < len(gains):
                seen = self._seen(0, view, kept)
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
