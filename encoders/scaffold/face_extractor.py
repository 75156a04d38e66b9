"""Faces: their motion in the source, sent for an interval where its mouth or its distance gains.

A face is sent where D + lambda R falls; or where the error of the mouth's opening halves and D does
not rise by more than its bits are worth.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.layers.camera import CAMERA, camera_nodes, camera_unit
from gsvc.codec.bitstream.layers.faces import (
    FACES,
    MAX_FACES,
    MAX_NUMBER,
    POSE_NUMBERS,
    Face,
    Faces,
    Numbers,
    face_unit,
)
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Site
from gsvc.decoders.interpolation.face_motion import (
    Points,
    face_states,
    openings,
    points_of,
    states_of,
)
from gsvc.decoders.interpolation.scaffold_motion import corners_at
from gsvc.encoders.scaffold.extraction import Before, JoinedFrames, RenderedInterval
from gsvc.encoders.scaffold.face_landmarks import FaceMesh, face_tracks
from gsvc.encoders.search.distortion import Distortion

_JUDGED = 2
"""Frames of an interval that are looked at, at most; what is chosen is judged again at the end."""


class FaceProbe:
    """Renders an interval under other faces."""

    def __init__(self, drawn: RenderedInterval, distortion: Distortion) -> None:
        self._drawn, self._distortion = drawn, distortion

    def distortions(self, ways: Sequence[Faces | None]) -> list[float]:
        """Those of the frames drawn, each summed over pixels and frames."""
        intervals = [with_faces(self._drawn.interval, faces) for faces in ways]
        sums, times = [0.0] * len(ways), self._drawn.times(_JUDGED)
        # Motion is found once for all that is drawn of a frame.
        for time in times:
            reference = self._distortion.reference(self._drawn.source_at(time))
            for n, interval in enumerate(intervals):
                sums[n] += reference.total(self._drawn.picture(interval, time))
        return [one * self._drawn.last / len(times) for one in sums]


def with_faces(interval: Interval, faces: Faces | None) -> Interval:
    """The interval with these faces in place of its own."""
    return replace(interval, values={**interval.values, FACES: faces})


_FORMS = (2, 1.0, True), (2, 2.0, True), (2, 1.5, False), (1, 1.0, True)
"""What is tried: the step of nodes, the change from which a number is sent, and with the pose."""
_MOVES = 0.008
"""Mean deviation of points from even motion, in distances of the eyes, below which a face is left
alone."""
_SPEAKS = 0.015
"""Deviation of the mouth's opening from even motion, in the same distance, from which it speaks."""
_HALVED = 0.5

States = NDArray[np.float64]


@dataclass(frozen=True)
class _FaceMotion:
    """A face over an interval, in face units."""

    start: States
    end: States
    states: States
    """(frames, 10): of the frames drawn, by time as of `camera_nodes`, from 1 on."""


@dataclass(frozen=True)
class _Offer:
    """What a face is worth in an interval."""

    motion: _FaceMotion
    saved: list[float]
    """Distortion that each of `_FORMS` saves, over pixels and frames."""


class FaceExtractor:
    """Finds the faces of a group's intervals."""

    def __init__(
        self, geometry: Geometry, distortion: Distortion, find: FaceMesh, pool: Executor
    ) -> None:
        self._geometry, self._distortion, self._find, self._pool = geometry, distortion, find, pool

    def added(
        self,
        views: Sequence[RenderedInterval],
        before: Before | None,
        lmbda: float,
        last: Faces | None = None,
    ) -> list[Interval]:
        """The intervals of a group, with the faces that pay.

        `views`: these intervals; `before`: what precedes them; `lmbda`: the distortion, over pixels
        and frames, that a bit must save; `last`: the faces that the group coded before these.
        """
        first = [] if before is None else [before.source]
        tracks = face_tracks(JoinedFrames(first, *(view.sources for view in views)), self._find)
        found, start = [], 0 if before is not None else -1
        motions: list[list[_FaceMotion | None]] = []
        for view in views:
            motions.append([self._motion(track, start, view.interval) for track in tracks])
            start += view.interval.length
        for view, offers in zip(views, self._pool.map(self._offered, views, motions), strict=True):
            found.append(self._chosen(view.interval, offers, last, lmbda))
            last = found[-1][FACES]
        return found

    def _offered(
        self, drawn: RenderedInterval, motions: Sequence[_FaceMotion | None]
    ) -> list[_Offer | None]:
        """What each face of an interval could save, by itself: faces hardly overlap."""
        if not any(motions) or drawn.interval.dissolves:
            return []
        place, length = drawn.interval.place, drawn.interval.length
        coded = [
            None if one is None else [_coded(one, place, length, *form) for form in _FORMS]
            for one in motions
        ]
        ways: list[Faces | None] = [None]
        for slot, forms in enumerate(coded):
            ways += [_alone(slot, face) for face in forms or ()]
        none, *each = FaceProbe(drawn, self._distortion).distortions(ways)
        left = iter(each)
        return [
            None if one is None else _Offer(one, [none - next(left) for _ in _FORMS])
            for one in motions
        ]

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

    def _chosen(
        self,
        interval: Interval,
        offers: Sequence[_Offer | None],
        last: Faces | None,
        lmbda: float,
    ) -> Interval:
        """The interval with each of the faces that is worth it, one after the other."""
        site = Site(self._geometry, interval.place, interval.length)
        faces: Faces = (None,) * MAX_FACES
        spent = 0.0
        for slot, offer in enumerate(offers):
            if offer is None:
                continue
            motion, old = offer.motion, last[slot] if last else None
            if old is not None:
                motion = replace(motion, start=_kept(motion.start, old.end))
            forms = [_coded(motion, site.place, site.length, *form) for form in _FORMS]
            probes = [(*faces[:slot], face, *faces[slot + 1 :]) for face in forms]
            bits = [FACES.bits(site, last, one) - spent for one in probes]
            gains = [saved - lmbda * more for saved, more in zip(offer.saved, bits, strict=True)]
            best = int(np.argmax(gains))
            if gains[best] > 0 or (
                offer.saved[best] + lmbda * bits[best] > 0 and _halves(motion, forms[best], site)
            ):
                faces, spent = probes[best], spent + bits[best]
        return with_faces(interval, faces) if any(faces) else interval


def _alone(slot: int, face: Face) -> Faces:
    return tuple(face if one == slot else None for one in range(MAX_FACES))


def _kept(state: States, old: Numbers) -> States:
    """A state, or the one before where that is as near as makes no difference."""
    return old.astype(np.float64) if np.abs(state - old).max() <= 1 else state


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
    times = range(1, len(motion.states) + 1)
    drawn = openings(face_states(face, site.place, site.length, times))
    even = openings(_straight(motion, site.place, site.length))
    wanted = openings(motion.states)
    without, left = (float(np.sqrt(np.mean((one - wanted) ** 2))) for one in (even, drawn))
    return without >= _SPEAKS and left <= _HALVED * without
