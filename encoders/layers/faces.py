"""Faces: their motion in the source, sent for an interval where its mouth or its distance gains.

A face is sent where D + lambda R falls; or where the error of the mouth's opening halves and D does
not rise by more than its bits are worth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Site
from gsvc.codec.scaffold.layers.camera import CAMERA, camera_nodes, camera_unit
from gsvc.codec.scaffold.layers.faces import (
    FACES,
    MAX_FACES,
    MAX_NUMBER,
    POSE_NUMBERS,
    Face,
    Faces,
    Numbers,
    face_unit,
)
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.motion.camera import corners_at
from gsvc.decoders.motion.face_shape import Points, openings, points_of, states_of
from gsvc.decoders.motion.faces import face_states
from gsvc.encoders.distortion import Judge
from gsvc.encoders.drawn_interval import DrawnInterval
from gsvc.encoders.extraction import Before, SourceInterval, each_before
from gsvc.encoders.layers.face_trial import FaceTrial, with_faces
from gsvc.encoders.people.face_points import FacePoints
from gsvc.encoders.people.face_tracks import face_tracks

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
class _Motion:
    """A face over an interval, in face units."""

    start: States
    end: States
    states: States
    """(frames, 10): of the frames drawn, by time as of `camera_nodes`, from 1 on."""


class FaceExtractor:
    """Finds the faces of a group's intervals."""

    def __init__(self, find: FacePoints, geometry: Geometry, judge: Judge) -> None:
        self._find, self._geometry, self._judge = find, geometry, judge

    def added(
        self,
        sources: Sequence[SourceInterval],
        before: Before | None,
        intervals: Sequence[Interval],
        lmbda: float,
    ) -> list[Interval]:
        """The intervals of a group, with the faces that pay.

        `before`: what precedes them; `lmbda`: the distortion, over pixels and frames, that a bit
        must save.
        """
        pictures: list[Picture] = [] if before is None else [before.source]
        for source in sources:
            pictures += source.sources
        tracks = face_tracks(pictures, self._find)
        found, last, start = list(intervals), None, 0 if before is not None else -1
        closing = None if before is None else before.closing
        for n, (source, ahead) in enumerate(
            zip(sources, each_before(sources, before), strict=True)
        ):
            here = [self._motion(track, start, found[n]) for track in tracks]
            start += source.length
            if any(here) and not found[n].dissolves:
                drawn = DrawnInterval(source, ahead, found[n], closing)
                trial = FaceTrial(drawn, self._judge, lmbda)
                found[n] = self._chosen(trial, here, last)
            last, closing = found[n][FACES], found[n].closing_sample
        return found

    def _motion(self, track: Points, start: int, interval: Interval) -> _Motion | None:
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
        motion = _Motion(ends[0], ends[1], states_of(moved / unit))
        even = _straight(motion, place, length)
        apart = np.linalg.norm(points_of(even) - points_of(motion.states), axis=-1).mean()
        return motion if apart > _MOVES * np.hypot(*ends[0, 2:POSE_NUMBERS]) else None

    def _chosen(
        self, trial: FaceTrial, motions: Sequence[_Motion | None], last: Faces | None
    ) -> Interval:
        """The interval with each of the faces that is worth it, one after the other."""
        interval = trial.interval
        site = Site(self._geometry, interval.place, interval.length)
        faces: Faces = (None,) * MAX_FACES
        cost, spent = trial.distortion(None), 0.0
        for slot, motion in enumerate(motions):
            if motion is None:
                continue
            old = last[slot] if last else None
            sent = motion if old is None else replace(motion, start=_kept(motion.start, old.end))
            forms = [_coded(sent, site.place, site.length, *form) for form in _FORMS]
            trials = [(*faces[:slot], face, *faces[slot + 1 :]) for face in forms]
            bits = [FACES.bits(site, last, one) for one in trials]
            costs = list(map(trial.distortion, trials))
            best = min(range(len(forms)), key=lambda k: costs[k] + trial.lmbda * bits[k])
            worth = trial.lmbda * (bits[best] - spent)
            halves = _halves(motion, forms[best], site)
            if costs[best] + worth < cost or (halves and costs[best] < cost + worth):
                faces, cost, spent = trials[best], costs[best], bits[best]
        if not any(faces):
            return interval
        return with_faces(interval, faces)


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


def _straight(motion: _Motion, place: Place, length: int) -> States:
    """The states of even motion at the frames of an interval."""
    times = np.arange(1, len(motion.states) + 1)[:, None]
    share = times / length if place is Place.BETWEEN else np.zeros_like(times)
    return np.asarray((1 - share) * motion.start + share * motion.end)


def _coded(
    motion: _Motion, place: Place, length: int, step_log2: int, change: float, posed: bool
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


def _halves(motion: _Motion, face: Face, site: Site) -> bool:
    """Whether the mouth speaks, and the error of its opening is half of what it is without."""
    times = range(1, len(motion.states) + 1)
    drawn = openings(face_states(face, site.place, site.length, times))
    even = openings(_straight(motion, site.place, site.length))
    wanted = openings(motion.states)
    without, left = (float(np.sqrt(np.mean((one - wanted) ** 2))) for one in (even, drawn))
    return without >= _SPEAKS and left <= _HALVED * without
