"""Faces in a picture: where they are, 468 points of each, and how these move.

Method: Y. Kartynnik et al., "Real-time Facial Surface Geometry from Monocular Video on Mobile
GPUs", 2019 (arXiv:1907.06724), in squares that BlazeFace finds (arXiv:1907.05047).

Faces weigh more in the encoder's distortion than what is around them. Tracks are steady in time,
and a jump ends one. A distance of textures hardly sees a nose bent aside or a mouth drawn twice:
`landmark_error` does.
"""

from collections.abc import Sequence
from threading import Lock

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.faces import MAX_FACES
from gsvc.decoders.detection import people
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.interpolation.scaffold_motion import LANDMARKS, Points

FACE_MODEL = "face_detection_short_range"
FACE_STRIDES = 8, 16, 16, 16
_LEAST_SCORE = 0.75
"""On development clips faces have .85 and more, what is taken for a face at most .65."""
_AROUND = 0.62, 0.72
"""Semi-axes of the ellipse that weighs more, in widths and heights of a face's box, which ends at
the brow and the chin."""


class FaceWeights:
    """Called with a picture, gives the weight of each of its parts. Threads may share it.

    Making it raises MissingModelError without its model, MissingDependencyError without LiteRT.
    """

    def __init__(self, factor: float) -> None:
        """`factor`: weight of a face in proportion to all else."""
        self._factor = factor
        self._detect = people.SingleShotDetector(FACE_MODEL, FACE_STRIDES, _LEAST_SCORE)
        self._lock = Lock()

    def __call__(self, picture: Picture, stride: int) -> NDArray[np.float32] | None:
        """At every `stride`-th pixel of every `stride`-th line of RGB uint8 (H, W, 3).

        float32 (ceil(H / stride), ceil(W / stride)), 1 in the mean, so that a lambda buys as many
        bits as without faces; None without a face.
        """
        with self._lock:
            faces = self._detect(picture)
        if not faces:
            return None
        height, width = picture.shape[:2]
        y, x = np.ogrid[:height:stride, :width:stride]
        weights = np.ones((y.size, x.size), np.float32)
        for face in faces:
            (left, top), (right, bottom) = face.box[:2], face.box[2:]
            across = (x - (left + right) / 2) / (_AROUND[0] * max(right - left, 1.0))
            down = (y - (top + bottom) / 2) / (_AROUND[1] * max(bottom - top, 1.0))
            weights[across**2 + down**2 < 1] = self._factor
        weights /= weights.mean()
        return weights


OUTER_EYE_CORNERS = (33, 263)
"""Indices among the 468 points: the right eye's and the left eye's."""

Square = NDArray[np.float64]
"""Affine map, (2, 3), from pixels of the network's input to those of a picture."""

_SQUARE_SCALE = 1.5  # how much larger the square that is looked at is than the face's box
_POINTS = 468
_PRESENCE_THRESHOLD = 0.5


class FaceMesh:
    """Finds faces in a picture, and the points of a face in a square of a picture.

    The results depend on the picture and the square alone. The constructor raises
    MissingModelError when a model is missing.
    """

    def __init__(self) -> None:
        self._detect = people.SingleShotDetector(FACE_MODEL, FACE_STRIDES)
        self._network = people.LiteRtModel("face_landmark")
        self._side, self._lock = self._network.input_shape[1], Lock()

    def squares(self, picture: Picture) -> list[Square]:
        """Where faces are in RGB uint8 (H, W, 3), the most probable first, turned upright."""
        return [_square(found, self._side) for found in self._detect(picture)]

    def points(self, picture: Picture, square: Square) -> NDArray[np.float64] | None:
        """The points of the face in that square, float64 (468, 2), pixels; None without a face."""
        values, presence = self._network(people.crop(picture, square, self._side))
        if people.sigmoid(presence).item() < _PRESENCE_THRESHOLD:
            return None
        inside = values.reshape(_POINTS, 3)[:, :2].astype(np.float64)
        return np.asarray(inside @ square[:, :2].T + square[:, 2])

    def square_of(self, points: NDArray[np.float64]) -> Square:
        """The square around a face whose points, (468, 2), are known, with its eyes on a level."""
        dx, dy = points[OUTER_EYE_CORNERS[1]] - points[OUTER_EYE_CORNERS[0]]
        angle = float(np.arctan2(dy, dx))
        cosine, sine = np.cos(angle), np.sin(angle)
        turn = np.array([[cosine, -sine], [sine, cosine]])
        level = points @ turn
        low, high = level.min(axis=0), level.max(axis=0)
        scaled = turn * max(*(high - low), 1.0) * _SQUARE_SCALE / self._side
        centre = turn @ ((low + high) / 2)
        return np.column_stack([scaled, centre - scaled @ np.full(2, self._side / 2)])

    def near(self, picture: Picture, around: Points) -> Points | None:
        """All points, (468, 2) in pixels, of the face about `around`, those of `LANDMARKS` nearly.

        `picture`: RGB or luma, uint8; colours do not count. None without a face. May be shared.
        """
        known = np.repeat(around.mean(axis=0, keepdims=True), _POINTS, axis=0)
        known[LANDMARKS] = around
        luma = cv2.cvtColor(gray(picture), cv2.COLOR_GRAY2RGB)
        with self._lock:
            return self.points(np.asarray(luma, np.uint8), self.square_of(known))


def _square(face: people.DetectedBox, side: int) -> Square:
    """The square around a face, with its eyes, the first two points, on a level."""
    left, top, right, bottom = face.box
    dx, dy = face.points[1] - face.points[0]
    extent = max(right - left, bottom - top, 1.0) * _SQUARE_SCALE
    centre = np.array([left + right, top + bottom]) / 2
    return people.upright_square(centre, extent, float(np.arctan2(dy, dx)), side)


_LOOK, _SEEK = 12, 4
"""Frames from one look for new faces to the next, and where none is seen."""
_APART = 1.0  # distances of the eyes between the middles of what are two faces
_JUMP = 0.3
"""Distances of the eyes that points move in a frame, in the mean, in what is no motion."""
_STEADY = 0.8  # standard deviation, in frames, of the smoothing over time
_REACH = 3
_LEAST_EYES = 12.0  # pixels between the eyes below which points are not to be trusted

Track = NDArray[np.float64]
"""(frames, points, 2) in pixels, NaN where the face is not seen."""


def face_tracks(pictures: Sequence[Picture], find: FaceMesh, step: int = 1) -> list[Track]:
    """Up to `MAX_FACES` faces of consecutive pictures, RGB uint8 (H, W, 3), at `LANDMARKS`.

    Faces are followed in every `step`-th picture; between these their points move evenly.
    """
    times = range(0, len(pictures), step)
    tracks: list[Track] = []
    for now, time in enumerate(times):
        for track in tracks:
            _follow(track, now, pictures[time], find)
        seen = [track[now] for track in tracks if np.isfinite(track[now, 0, 0])]
        if now % (_LOOK if seen else _SEEK) == 0:
            for points in _new(pictures[time], seen, find)[: MAX_FACES - len(tracks)]:
                track = np.full((len(times), *points.shape), np.nan)
                track[now] = points
                tracks.append(track)
    return [_at_all(_steadied(track)[:, LANDMARKS], len(pictures), step) for track in tracks]


def _at_all(track: Track, frames: int, step: int) -> Track:
    """A track of every `step`-th frame at all of them."""
    if step == 1:
        return track
    before = np.arange(frames) // step
    after = np.minimum(before + 1, len(track) - 1)
    share = (np.arange(frames) % step / step)[:, None, None]
    moved = track[before] + share * (track[after] - track[before])
    return np.where(share == 0, track[before], moved)


def _follow(track: Track, now: int, picture: Picture, find: FaceMesh) -> None:
    """The points of a face that was seen in the frame before."""
    last = track[now - 1]
    if now == 0 or not np.isfinite(last[0, 0]):
        return
    points = find.points(picture, find.square_of(last))
    if points is not None and _eyes(points) >= _LEAST_EYES:
        moved = np.linalg.norm(points - last, axis=1).mean()
        if moved < _JUMP * _eyes(last):
            track[now] = points


def _new(picture: Picture, seen: list[Track], find: FaceMesh) -> list[Track]:
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
    return apart(points, OUTER_EYE_CORNERS)


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


LIPS = 13, 14
"""Indices among the 468 points: the middle of the inner edges."""


def landmark_error(source: Points | None, drawn: Points | None) -> float:
    """Mean distance of (468, 2) points plus the difference of the mouth's openings.

    In distances of the source's outer eye corners, at most 2, also where no face is drawn; 0 where
    the source shows none.
    """
    if source is None:
        return 0.0
    if drawn is None:
        return 2.0
    eyes = max(apart(source, OUTER_EYE_CORNERS), 1.0)
    moved = float(np.linalg.norm(source - drawn, axis=1).mean())
    opened = abs(apart(source, LIPS) - apart(drawn, LIPS))
    return min(2.0, (moved + opened) / eyes)


def apart(points: NDArray[np.float64], pair: tuple[int, int]) -> float:
    """Distance of two of a face's points, (468, 2)."""
    one, other = points[list(pair)]
    return float(np.linalg.norm(one - other))
