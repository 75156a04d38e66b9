"""Faces followed from frame to frame: points steady in time, and jumps that end a track."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.faces import MAX_FACES
from gsvc.decoders.motion.face_shape import LANDMARKS
from gsvc.encoders.people.face_points import OUTER_EYE_CORNERS, FacePoints

_LOOK, _SEEK = 12, 4
"""Frames from one look for new faces to the next, and where none is seen."""
_APART = 1.0
"""Distances of the eyes between the middles of what are two faces."""
_JUMP = 0.3
"""Distances of the eyes that points move in a frame, in the mean, in what is no motion."""
_STEADY = 0.8
"""Standard deviation, in frames, of the smoothing over time."""
_REACH = 3
_LEAST_EYES = 12.0
"""Pixels between the eyes below which points are not to be trusted."""

Track = NDArray[np.float64]
"""(frames, points, 2) in pixels, NaN where the face is not seen."""


def face_tracks(pictures: Sequence[Picture], find: FacePoints) -> list[Track]:
    """The faces of consecutive pictures, RGB uint8 (H, W, 3), `MAX_FACES` at most.

    Of the 468 points those in `LANDMARKS`.
    """
    tracks: list[Track] = []
    for now, picture in enumerate(pictures):
        for track in tracks:
            _follow(track, now, picture, find)
        seen = [track[now] for track in tracks if np.isfinite(track[now, 0, 0])]
        if now % (_LOOK if seen else _SEEK) == 0:
            for points in _new(picture, seen, find)[: MAX_FACES - len(tracks)]:
                track = np.full((len(pictures), *points.shape), np.nan)
                track[now] = points
                tracks.append(track)
    return [_steadied(track)[:, LANDMARKS] for track in tracks]


def _follow(track: Track, now: int, picture: Picture, find: FacePoints) -> None:
    """The points of a face that was seen in the frame before."""
    last = track[now - 1]
    if now == 0 or not np.isfinite(last[0, 0]):
        return
    points = find.points(picture, find.square_of(last))
    if points is not None and _eyes(points) >= _LEAST_EYES:
        moved = np.linalg.norm(points - last, axis=1).mean()
        if moved < _JUMP * _eyes(last):
            track[now] = points


def _new(picture: Picture, seen: list[Track], find: FacePoints) -> list[Track]:
    found: list[Track] = []
    for square in find.squares(picture)[: 2 * MAX_FACES]:
        rough = find.points(picture, square)
        points = None if rough is None else find.points(picture, find.square_of(rough))
        if points is None or _eyes(points) < _LEAST_EYES:
            continue
        middle = points.mean(axis=0)
        others = (np.linalg.norm(one.mean(axis=0) - middle) for one in [*seen, *found])
        if all(other > _APART * _eyes(points) for other in others):
            found.append(points)
    return found


def _eyes(points: Track) -> float:
    one, other = points[list(OUTER_EYE_CORNERS)]
    return float(np.linalg.norm(one - other))


def _steadied(track: Track) -> Track:
    """A Gaussian over the frames in which the face is seen."""
    seen = np.isfinite(track[:, 0, 0])
    known, total = np.zeros_like(track), np.zeros(len(track))
    for shift in range(-_REACH, _REACH + 1):
        weight = np.exp(-0.5 * (shift / _STEADY) ** 2)
        at = np.arange(len(track)) + shift
        there = (at >= 0) & (at < len(track))
        there[there] = seen[at[there]]
        known[there] += weight * track[at[there]]
        total[there] += weight
    known[~seen] = np.nan
    return known / np.maximum(total, 1e-9)[:, None, None]
