"""The motion of faces: their shape by its state, and how far its points are from even motion.

The shape is a mean, bent by weighted expressions and placed by a similarity: an active shape model
(Cootes et al. 1995). `face_table` is fitted to clips of two people; six expressions, turns of the
head among them, leave half a pixel at the lips of others at 288 lines.

What lies around the points moves with them (normalised convolution, Knutsson and Westin 1993) and
less and less beyond the face. The mouth is drawn from the keyframe whose mouth is open as far.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.layers.faces import FACES, POSE_NUMBERS, Face, face_unit
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Sample
from gsvc.decoders.interpolation.face_table import ROWS
from gsvc.decoders.interpolation.optical_flow import Bend, FloatImage, Flow, between_nodes

MEAN_STEPS = 1 << 10
"""Of the mean, in the distance between the outer corners of the eyes."""
EXPRESSION_STEPS = 1 << 15
"""Of an expression with weight 1, in the same distance."""

_TABLE = np.array(ROWS)
LANDMARKS: list[int] = _TABLE[:, 0].tolist()
"""Of the 468 points of MediaPipe's face mesh, those of the shape: outer and inner lips first."""
LIPS = slice(0, 40)
MEAN = _TABLE[:, 1:3] / MEAN_STEPS
"""(points, 2), x and y in distances of the eyes."""
EXPRESSIONS = (_TABLE[:, 3:].reshape(len(_TABLE), -1, 2) / EXPRESSION_STEPS).transpose(1, 0, 2)
"""(6, points, 2) of weight 1, as `MEAN`."""
_UPPER, _LOWER = LANDMARKS.index(13), LANDMARKS.index(14)
_STEADY = [
    LANDMARKS.index(one)
    for one in (
        *(33, 133, 362, 263, 1, 2, 4, 98, 327, 168, 197, 195),
        *(70, 107, 336, 300, 234, 454, 10, 162, 389, 164),
    )
]
"""What the jaw does not move: eyes, nose, brows, temples."""

Points = NDArray[np.float64]
"""(..., points, 2): x and y."""


def points_of(states: NDArray[np.float64]) -> Points:
    """The points of faces with these states, (..., 10), in face units: as `Face.start`."""
    shape = MEAN + np.tensordot(states[..., POSE_NUMBERS:], EXPRESSIONS, 1)
    x, y, right, down = np.moveaxis(states[..., :POSE_NUMBERS, None], -2, 0)
    across = right * shape[..., 0] - down * shape[..., 1] + x
    along = down * shape[..., 0] + right * shape[..., 1] + y
    return np.stack([across, along], axis=-1)


def openings(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the mouths of faces with these states, (..., 10), are open: (...), in distances of
    the eyes, below 0 where lips are pressed."""
    shape = MEAN + np.tensordot(states[..., POSE_NUMBERS:], EXPRESSIONS, 1)
    return np.asarray(shape[..., _LOWER, 1] - shape[..., _UPPER, 1])


def laid_over(points: Points, shape: Points) -> tuple[NDArray[np.float64], Points]:
    """The similarities, (frames, 4), that lay a shape (points, 2) over points (frames, points, 2),
    as in a state, and the points in the shape's coordinates."""
    x, y = shape[_STEADY].T
    one, none = np.ones_like(x), np.zeros_like(x)
    rows = np.concatenate(
        [np.stack([one, none, x, -y], axis=1), np.stack([none, one, y, x], axis=1)]
    )
    wanted = points[:, _STEADY].transpose(0, 2, 1).reshape(len(points), -1)
    poses = np.linalg.lstsq(rows, wanted.T, rcond=None)[0].T
    axes = poses[:, 2] + 1j * poses[:, 3]
    placed = points[..., 0] + 1j * points[..., 1] - (poses[:, 0] + 1j * poses[:, 1])[:, None]
    back = placed / axes[:, None]
    return poses, np.stack([back.real, back.imag], axis=-1)


def states_of(points: Points) -> NDArray[np.float64]:
    """The states, (frames, 10), of faces with these points, (frames, points, 2); least squares."""
    poses, shapes = laid_over(points, MEAN)
    flat = EXPRESSIONS.reshape(len(EXPRESSIONS), -1).T
    bent = (shapes - MEAN).reshape(len(points), -1)
    weights = np.linalg.lstsq(flat, bent.T, rcond=None)[0].T
    return np.concatenate([poses, weights], axis=1)


# Lengths are in distances of the eyes.
_GRID = 32
"""Grid points, a side, on which motion is computed."""
_SPREADS = (0.035, 1.0), (0.15, 1e-2), (0.4, 1e-4)
"""Standard deviations of the surroundings of a point, and their weights."""
_HEAD = 1.25
"""The hull of the points, so much larger, moves with them."""
_BORDER = 0.15
"""Standard deviation of its border."""
_AROUND = 0.8
"""Margin of the points beyond which nothing moves."""
_MOUTH = 1.3
"""The hull of the lips, so much larger, is drawn from one picture."""
_APART = 0.06
"""Difference of openings at which one picture has the mouth to itself."""
_LEAST, _MOST = 8.0, 8192.0
"""Pixels between the eyes of faces that are drawn."""
_WIDEST = 8.0
"""Side of the box of the points of faces that are drawn. Real ones stay below 3; without a bound a
forged one would have a grid of as many points as the frame has pixels."""


class FaceMotion:
    """The motion of an interval's faces; see `MotionSource`."""

    def __init__(self, interval: Interval, _before: Sample | None, geometry: Geometry) -> None:
        self._faces = [face for face in interval[FACES] or () if face is not None]
        self._place, self._length, self._geometry = interval.place, interval.length, geometry

    def bend(self, offset: int) -> Bend | None:
        """The motion of the faces at a frame; `offset` as `time` of `camera_nodes`."""
        found = None
        for face in self._faces:
            state = face_states(face, self._place, self._length, [offset])[0]
            share = offset / self._length if self._place is Place.BETWEEN else 0.0
            one = _bend(face, state, share, self._geometry)
            found = one if found is None else found + one
        return found


def face_states(face: Face, place: Place, length: int, times: Sequence[int]) -> NDArray[np.float64]:
    """The state of a face at `times` as of `camera_nodes`, (times, 10), in face units."""
    bends = between_nodes(face.bends, face.step_log2, place, length, times)
    share = np.array(times)[:, None] / length if place is Place.BETWEEN else 0.0
    return np.asarray((1 - share) * face.start + share * face.end + bends)


def _bend(face: Face, state: NDArray[np.float64], share: float, geometry: Geometry) -> Bend:
    shape = geometry.height, geometry.width
    vectors, side = np.zeros((*shape, 2), np.float32), np.zeros(shape, np.float32)
    states = np.stack([face.start, face.end, state])
    start, end, now = points_of(states) * face_unit(geometry)
    eyes = float(np.hypot(*state[2:4])) * face_unit(geometry)
    if not _LEAST <= eyes <= _MOST or (np.ptp(now, axis=0) > _WIDEST * eyes).any():
        return Bend(vectors)
    cell = max(1.0, eyes / _GRID)
    low = np.maximum(np.floor(now.min(axis=0) - _AROUND * eyes), 0).astype(int)
    high = np.minimum(np.ceil(now.max(axis=0) + _AROUND * eyes), shape[::-1]).astype(int)
    if (high - low < 2).any():
        return Bend(vectors)
    # Motion points from the frame to the coded pictures.
    moves = (1 - share) * start + share * end - now
    size = np.ceil((high - low) / cell).astype(int)
    at = (now - low) / cell - 0.5
    field = _spread(at, moves, (int(size[1]), int(size[0])), eyes / cell)
    mouth = _hull(at[LIPS], field.shape[:2], _MOUTH, 0.1 * eyes / cell)
    better = _nearer(states)
    inside = slice(low[1], high[1]), slice(low[0], high[0])
    vectors[inside] = _enlarged(field, cell, high - low)
    side[inside] = np.float32(better) * _enlarged(mouth, cell, high - low)
    return Bend(vectors, side)


def _nearer(states: NDArray[np.float64]) -> float:
    """1 where the mouth at the start is open as now, -1 where that at the end is."""
    start, end, now = (float(one) for one in openings(states))
    return min(1.0, max(-1.0, (abs(now - end) - abs(now - start)) / _APART))


def _spread(at: Points, moves: Points, shape: tuple[int, int], eyes: float) -> Flow:
    """The motion of points on a grid, carried to what is around them; `at`, `eyes` in its cells."""
    splat = np.zeros((*shape, 3), np.float32)
    whole = np.floor(at).astype(int)
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        x, y = whole[:, 0] + dx, whole[:, 1] + dy
        inside = (x >= 0) & (x < shape[1]) & (y >= 0) & (y < shape[0])
        near = np.prod(1 - np.abs(at - np.stack([x, y], axis=1)), axis=1)
        values = near[:, None] * np.column_stack([moves, np.ones(len(moves))])
        np.add.at(splat, (y[inside], x[inside]), values[inside].astype(np.float32))
    known = np.full_like(splat, (0, 0, 1e-9))
    for spread, weight in _SPREADS:
        known += np.float32(weight) * _blurred(splat, spread * eyes)
    field = known[..., :2] / known[..., 2:]
    head = _hull(at, shape, _HEAD, _BORDER * eyes)
    return np.asarray(field * head[..., None], np.float32)


def _hull(at: Points, shape: tuple[int, int], scale: float, border: float) -> FloatImage:
    """1 in the hull of points, enlarged, and 0 beyond its soft border."""
    middle = at.mean(axis=0)
    wide = np.clip(middle + scale * (at - middle), -30000, 30000)
    hull = cv2.convexHull(np.rint(wide).astype(np.int32))
    mask = np.zeros(shape, np.float32)
    cv2.fillConvexPoly(mask, hull, 1.0)
    return _blurred(mask, border)


def _blurred(image: FloatImage, spread: float) -> FloatImage:
    blurred = cv2.GaussianBlur(image, (0, 0), spread, borderType=cv2.BORDER_CONSTANT)
    return np.asarray(blurred, np.float32)


def _enlarged(image: FloatImage, cell: float, size: NDArray[np.int_]) -> FloatImage:
    """A grid of cells at pixels, (width, height) of them."""
    grow = np.array([[cell, 0, (cell - 1) / 2], [0, cell, (cell - 1) / 2]])
    large = cv2.warpAffine(
        image, grow, (int(size[0]), int(size[1])), borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(large, np.float32)
