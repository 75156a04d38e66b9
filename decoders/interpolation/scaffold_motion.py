"""What the scaffold adds to the estimated motion: blocks, labels, limbs, faces, the camera's path.

Each layer that moves pixels is part of a `MotionSource`; the renderer sums those in `SOURCES`.
Motion sent at anchors, the samples that move pixels, is zero at the keyframes and linear in time
between anchors. The camera's path is affine in space and linear in time.

The shape of a face is a mean, bent by weighted expressions and placed by a similarity: an active
shape model (Cootes et al. 1995). `face_table.json` is fitted to clips of two people; six
expressions, turns of the head among them, leave half a pixel at the lips of others at 288 lines.
What lies around the points moves with them (normalised convolution, Knutsson and Westin 1993) and
less and less beyond the face. The mouth is drawn from the keyframe whose mouth is open as far.
"""

import json
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.layers.camera import CAMERA, Camera, camera_nodes, camera_unit
from gsvc.codec.bitstream.layers.faces import FACES, POSE_NUMBERS, Face, face_unit
from gsvc.codec.bitstream.layers.flow import FLOW, LEFT, RIGHT, Correction
from gsvc.codec.bitstream.layers.pose import LIMBS, POSE, Person, pose_unit
from gsvc.codec.bitstream.layers.segmentation import SEGMENTATION
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Sample
from gsvc.decoders.interpolation.optical_flow import Bend, FloatImage, Flow, MotionSource

MEAN_STEPS = 1 << 10
"""Steps of the mean in the distance between the outer corners of the eyes."""
EXPRESSION_STEPS = 1 << 15
"""Steps of an expression with weight 1 in the same distance."""

_TABLE = np.array(json.loads(Path(__file__).with_name("face_table.json").read_text()))
"""A row a point: its number in MediaPipe's face mesh; the mean, x and y; each expression, x and y.
Made by `tools/fit_face_table.py`."""
LANDMARKS: list[int] = _TABLE[:, 0].tolist()
"""Points of the shape among the 468 of MediaPipe's face mesh: outer and inner lips first."""
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
"""Points that the jaw does not move: eyes, nose, brows, temples."""

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
_GRID = 32  # grid points, a side, on which motion is computed
_SPREADS = (0.035, 1.0), (0.15, 1e-2), (0.4, 1e-4)
"""Standard deviations of the surroundings of a point, and their weights."""
_HEAD = 1.25  # the hull of the points, so much larger, moves with them
_BORDER = 0.15  # standard deviation of its border
_AROUND = 0.8  # margin of the points beyond which nothing moves
_MOUTH = 1.3  # the hull of the lips, so much larger, is drawn from one picture
_APART = 0.06  # difference of openings at which one picture has the mouth to itself
_LEAST, _MOST = 8.0, 8192.0  # pixels between the eyes of faces that are drawn
_WIDEST = 8.0
"""Side of the box of the points of faces that are drawn. Real ones stay below 3; without a bound a
forged one would have a grid of as many points as the frame has pixels."""


class FaceMotion:
    """The motion of an interval's faces; see `MotionSource`."""

    def __init__(self, interval: Interval, _closing: Sample | None, geometry: Geometry) -> None:
        self._faces = [face for face in interval[FACES] or () if face is not None]
        self._place, self._length, self._geometry = interval.place, interval.length, geometry

    def bend(self, offset: int) -> Bend | None:
        """The motion of the faces at a frame; `offset` as `time` of `camera_nodes`."""
        share = offset / self._length if self._place is Place.BETWEEN else 0.0
        states = [face_states(one, self._place, self._length, [offset])[0] for one in self._faces]
        pairs = zip(self._faces, states, strict=True)
        bends = [_bend(face, state, share, self._geometry) for face, state in pairs]
        return reduce(add, bends) if bends else None


def between_nodes(
    values: NDArray[np.generic], step_log2: int, place: Place, length: int, times: Sequence[int]
) -> NDArray[np.float64]:
    """A path at `times`, (times, n), that has `values`, (nodes, n), at nodes and 0 at keyframes.

    `place`, `length`: of the interval; times and nodes as of `camera_nodes`. Linear between them.
    """
    still = np.zeros((1, values.shape[1]))
    known, path = [0, *camera_nodes(place, length, step_log2)], np.concatenate([still, values])
    if place is Place.BETWEEN:
        known, path = [*known, length], np.concatenate([path, still])
    return np.stack([np.interp(times, known, one) for one in path.T], axis=1)


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
    # 1 where the mouth at the start is open as now, -1 where that at the end is.
    open_start, open_end, open_now = (float(one) for one in openings(states))
    better = (abs(open_now - open_end) - abs(open_now - open_start)) / _APART
    inside = slice(low[1], high[1]), slice(low[0], high[0])
    vectors[inside] = _enlarged(field, cell, high - low)
    side[inside] = np.float32(min(1.0, max(-1.0, better))) * _enlarged(mouth, cell, high - low)
    return Bend(vectors, side)


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


_KEPT_FIELDS = 2  # of the anchors around a frame: an interval may have 15


class AnchoredMotion:
    """The motion of an interval's samples; see `MotionSource`."""

    def __init__(self, interval: Interval, closing: Sample | None, geometry: Geometry) -> None:
        self._geometry, self._length = geometry, interval.length
        self._samples = [s for s in (closing, *interval.samples) if s is not None]
        self._anchors = [
            s for s in interval.samples if _moves(s) and 0 < s.offset < interval.length
        ]
        self._fields: dict[int, tuple[Flow, FloatImage]] = {}

    def bend(self, offset: int) -> Bend | None:
        """The dense motion of the anchors around `offset`, interpolated."""
        after = next((s for s in self._anchors if s.offset >= offset), None)
        before = next((s for s in reversed(self._anchors) if s.offset < offset), None)
        if after is None and before is None:
            return None
        start = before.offset if before else 0
        end = after.offset if after else self._length
        share = (offset - start) / (end - start)
        shape = self._geometry.height, self._geometry.width
        vectors, side = np.zeros((*shape, 2), np.float32), np.zeros(shape, np.float32)
        for anchor, weight in ((before, 1 - share), (after, share)):
            if anchor is not None and weight > 0:
                field, field_side = self._dense(anchor)
                vectors += np.float32(weight) * field
                side += np.float32(weight) * field_side
        return Bend(vectors, side)

    def _dense(self, anchor: Sample) -> tuple[Flow, FloatImage]:
        if anchor.offset not in self._fields:
            if len(self._fields) == _KEPT_FIELDS:
                del self._fields[next(iter(self._fields))]
            field, side = _dense_correction(anchor, self._geometry)
            field = field + _limb_motion(anchor, self._samples, self._length, self._geometry)
            self._fields[anchor.offset] = field, side
        return self._fields[anchor.offset]


def _moves(sample: Sample) -> bool:
    segmentation = sample[SEGMENTATION]
    return (
        sample[FLOW] is not None
        or (segmentation is not None and bool(segmentation.vectors.any()))
        or any(person.moves_picture for person in sample[POSE] or ())
    )


def _dense_correction(sample: Sample, geometry: Geometry) -> tuple[Flow, FloatImage]:
    """A sample's corrections at every pixel: vectors (H, W, 2) and sides (H, W), as in `Bend`.
    Block values are interpolated between block centres within a label, so that motion edges follow
    the segmentation. Each label's own motion is added inside the label."""
    field = np.zeros((geometry.height, geometry.width, 3), np.float32)
    segmentation, correction = sample[SEGMENTATION], sample[FLOW]
    labels = None
    if segmentation is not None:
        labels = segmentation.labels.repeat(geometry.cell, 0).repeat(geometry.cell, 1)
        labels = labels[: geometry.height, : geometry.width]
    if correction is not None:
        field += _interpolate_blocks(correction, labels, geometry)
    if segmentation is not None:
        field[..., :2] += segmentation.vectors.astype(np.float32)[labels]
    return field[..., :2] * np.float32(geometry.motion_unit), field[..., 2]


def _interpolate_blocks(
    correction: Correction, labels: NDArray[np.uint8] | None, geometry: Geometry
) -> FloatImage:
    sides = (correction.sides == LEFT).astype(np.float32) - (correction.sides == RIGHT)
    blocks = np.dstack([correction.vectors.astype(np.float32), sides])
    smooth = _enlarge(blocks, correction.block_log2, geometry)
    if labels is None or not labels.any():
        return smooth
    # Normalised convolution per label: a block's weight is the label's share of its area.
    side, (rows, columns) = geometry.cell << correction.block_log2, correction.sides.shape
    result = smooth.copy()
    for label in np.unique(labels):
        mask = labels == label
        padded = np.zeros((rows * side, columns * side), np.float32)
        padded[: mask.shape[0], : mask.shape[1]] = mask
        share = padded.reshape(rows, side, columns, side).mean((1, 3))[..., None]
        total = _enlarge(share, correction.block_log2, geometry)
        own = _enlarge(blocks * share, correction.block_log2, geometry)
        inside = mask & (total > 1e-2)
        result[inside] = own[inside] / total[inside][..., None]
    return result


def _enlarge(blocks: FloatImage, block_log2: int, geometry: Geometry) -> FloatImage:
    rows, columns = blocks.shape[:2]
    side = geometry.cell << block_log2
    large = cv2.resize(blocks, (columns * side, rows * side), interpolation=cv2.INTER_LINEAR)
    return np.asarray(large[: geometry.height, : geometry.width], np.float32)


_THICKNESS = 2.0  # of a limb, in cells


def _limb_motion(
    anchor: Sample, samples: Sequence[Sample], length: int, geometry: Geometry
) -> NDArray[np.float32]:
    """Correction of motion at `anchor` from pose: float32 (H, W, 2) in pixels. It is the vector by
    which a key point, visible at the anchor and at both coded pictures, deviates from motion linear
    in time. It is interpolated along limbs and falls to 0 beside them."""
    small = np.zeros((*geometry.label_shape, 2), np.float32)
    starts = next((s for s in samples if s.offset <= 0), None)
    ends = next((s for s in samples if s.offset == length), None)
    for person in anchor[POSE] or () if starts and ends else ():
        assert starts is not None and ends is not None
        start, end = _find(starts, person), _find(ends, person)
        if person.moves_picture and start is not None and end is not None:
            small += _one_person(person, start, end, anchor.offset / length, geometry)
    return _enlarge(small, 0, geometry)


def _one_person(
    person: Person, start: Person, end: Person, time: float, geometry: Geometry
) -> NDArray[np.float32]:
    straight = (1 - time) * start.points + time * end.points
    # Motion points from the frame to the coded pictures, hence the sign.
    bend = (straight - person.points) * pose_unit(geometry)
    seen = person.visible & start.visible & end.visible
    rows, columns = geometry.label_shape
    weighted = np.zeros((rows, columns, 2), np.float32)
    weight = np.zeros((rows, columns), np.float32)
    x, y = np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
    for a, b in LIMBS:
        if not (seen[a] and seen[b]):
            continue
        (ax, ay), (bx, by) = person.points[a] / 4, person.points[b] / 4
        span = max((bx - ax) ** 2 + (by - ay) ** 2, 1e-6)
        along = np.clip(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / span, 0, 1)
        distance2 = (x - ax - along * (bx - ax)) ** 2 + (y - ay - along * (by - ay)) ** 2
        near = np.exp(-distance2 / (2 * _THICKNESS**2 / 4)).astype(np.float32)
        weighted += near[..., None] * (
            (1 - along)[..., None] * bend[a] + along[..., None] * bend[b]
        )
        weight += near
    return np.asarray(weighted / np.maximum(weight, 1)[..., None], np.float32)


def _find(sample: Sample, person: Person) -> Person | None:
    return next((p for p in sample[POSE] or () if p.identity == person.identity), None)


class CameraMotion:
    """The camera's path over an interval; see `MotionSource`."""

    def __init__(self, interval: Interval, _closing: Sample | None, geometry: Geometry) -> None:
        self._camera, self._geometry = interval[CAMERA], geometry
        self._place, self._length = interval.place, interval.length

    def bend(self, offset: int) -> Bend | None:
        """The camera's displacement at a frame."""
        if self._camera is None:
            return None
        path = camera_field(self._camera, self._place, self._length, offset, self._geometry)
        return None if path is None else Bend(path)


def camera_field(
    camera: Camera, place: Place, length: int, time: int, geometry: Geometry
) -> Flow | None:
    """The camera's displacement at every pixel of a frame: float32 (H, W, 2) in pixels.

    `time` is as in `camera_nodes`, `length` the frames of the interval. None: no displacement.
    """
    corners = corners_at(camera, place, length, [time])[0]
    if not corners.any():
        return None
    height, width = geometry.height, geometry.width
    # An affine field with these corners at the top left, top right and bottom left pixel.
    start, right, down = (corners * camera_unit(geometry)).astype(np.float32)
    across = start + np.linspace(0, 1, width, dtype=np.float32)[:, None] * (right - start)
    along = np.linspace(0, 1, height, dtype=np.float32)[:, None] * (down - start)
    field = np.empty((height, width, 2), np.float32)
    for axis in (0, 1):  # one after the other: broadcasting an axis of 2 is slow
        np.add(across[None, :, axis], along[:, None, axis], out=field[..., axis])
    return field


def corners_at(
    camera: Camera, place: Place, length: int, times: Sequence[int]
) -> NDArray[np.float64]:
    """The path at `times`, interpolated between its nodes: (times, 3, 2) in camera units."""
    path = between_nodes(camera.corners.reshape(-1, 6), camera.step_log2, place, length, times)
    return path.reshape(-1, 3, 2)


SOURCES: tuple[Callable[[Interval, Sample | None, Geometry], MotionSource], ...] = (
    AnchoredMotion,
    CameraMotion,
    FaceMotion,
)
"""Made from an interval, the sample on the coded picture before it, and the grids."""
HELD_SOURCES = CameraMotion, FaceMotion
"""Sources that also move frames that hold a coded picture."""


def total_bend(sources: Sequence[MotionSource], offset: int) -> Bend | None:
    """The sum of the motion that the sources add in a frame; None where none adds any."""
    bends = [bend for source in sources if (bend := source.bend(offset)) is not None]
    return reduce(add, bends) if bends else None
