"""Motion between two decoded pictures, estimated by the decoder, so that it costs no bits.

The estimator is OpenCV's Dense Inverse Search (Kroeger et al., ECCV 2016), with leaps of small
things (`find_leaps`) in all but older streams. Its id is in the stream header, so that a decoder
applies the encoder's corrections (`Bend`) to the estimate they were made for.

`MotionBetween` says how a frame between two pictures moves, and how far each picture shows the
frame. The motion that is found at the pixels of either picture is projected to the frame's time:
where something is at that time, not where it comes from. Both projections propose a vector for each
pixel. The vector that both pictures confirm wins; with none, the pixel stays. In covered or
uncovered areas one picture suffices: the one that shows them.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import get_ident
from typing import NamedTuple, Protocol, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture

_T = TypeVar("_T", bound=np.generic)
Flow = NDArray[np.float32]
"""Optical flow, float32 (height, width, 2): x and y displacement in pixels."""

FloatImage = NDArray[np.float32]

MOTION_ESTIMATORS = WITHOUT_LEAPS, WITH_GHOSTS, WITH_MANY_LEAPS, MOTION_ESTIMATOR = 1, 2, 3, 0
"""Ids of motion estimators: those of older streams, and that of those made now."""
PRESET = cv2.DISOPTICAL_FLOW_PRESET_MEDIUM

_CONSISTENT = 2.0  # forward-backward error, in pixels, at which trust has fallen to 1/e


def dense_flow(a: Picture, b: Picture, preset: int = PRESET, least_width: int = 64) -> Flow:
    """Optical flow from picture `a` to `b`, luma, uint8 (H, W), by OpenCV's DIS with a preset.

    Pictures narrower than `least_width` are padded: from 92 on, `FAST` does not fall back to fine
    scales, which take seven times as long.
    """
    height, width = a.shape
    # The coarsest level of DIS must hold one patch: smaller pictures are padded.
    pad = max(0, 64 - height), max(0, least_width - width)
    if any(pad):
        a, b = (cv2.copyMakeBorder(x, 0, pad[0], 0, pad[1], cv2.BORDER_REPLICATE) for x in (a, b))
    flow = _estimator(preset, a.shape, get_ident()).calc(a, b, None)
    return np.ascontiguousarray(flow[:height, :width], np.float32)


@lru_cache(32)
def _estimator(preset: int, shape: tuple[int, ...], thread: int) -> cv2.DISOpticalFlow:
    # It keeps its buffers, which take a fifth of the time to allocate, and scales that fit a size:
    # threads and sizes share none.
    return cv2.DISOpticalFlow.create(preset)


def gray(picture: Picture) -> Picture:
    """Luma, uint8 (H, W), of a picture in RGB or luma."""
    if picture.ndim == 2:
        return picture
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def shrunk(image: NDArray[_T], size: tuple[int, int]) -> NDArray[_T]:
    """The image at a smaller size, (width, height), by means over areas."""
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), image.dtype)


@lru_cache(8)
def pixel_grid(height: int, width: int) -> Flow:
    """The position of every pixel, float32 (H, W, 2). Read-only: callers share it."""
    grid = np.empty((height, width, 2), np.float32)
    grid[..., 0] = np.arange(width)
    grid[..., 1] = np.arange(height)[:, None]
    grid.flags.writeable = False
    return grid


def warp(image: NDArray[_T], positions: Flow, interpolation: int = cv2.INTER_LINEAR) -> NDArray[_T]:
    """Sample `image` at `positions` (pixels); its border is repeated outside."""
    moved = cv2.remap(image, positions, None, interpolation, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, image.dtype)


def trust(there: Flow, back: Flow) -> NDArray[np.float32]:
    """How well motion `there` and `back` agree: float32 (H, W) in (0, 1]."""
    positions = pixel_grid(*there.shape[:2]) + there
    distance = _length(there + warp(back, positions))
    return np.asarray(np.exp(-distance / _CONSISTENT), np.float32)


@dataclass(frozen=True)
class Bend:
    """How motion at a frame deviates from motion linear in time between the keyframes."""

    vectors: Flow
    """Added to the motion towards both pictures: float32 (H, W, 2), in pixels."""
    side: NDArray[np.float32] | None = None
    """The picture to draw from: float32 (H, W), -1 (right) to 1 (left); 0: the nearer one."""

    def __add__(self, other: "Bend") -> "Bend":
        sides = [side for side in (self.side, other.side) if side is not None]
        return Bend(self.vectors + other.vectors, np.add.reduce(sides) if sides else None)


class MotionSource(Protocol):
    """The motion that some layers add in one interval; see `scaffold_motion`."""

    def bend(self, offset: int) -> Bend | None:
        """The motion added in the frame `offset` frames after the left picture; None for none."""


# Lengths are in pixels of the motion's grid, 4x4 pixels of the picture each.
_ROUNDS = 3  # look-ups in which a projection settles
_FARTHEST = 2.0  # vectors that miss each other by more are as wrong as can be
_BRIGHTEST = 24.0  # levels of 0-255: places that differ by more are not the same
_LEVELS = 12.0  # levels of luma that cost as much as a pixel
_STILL = 4.0  # the same for a place that may not move: it must look alike in both pictures
_STAYS = 0.375  # cost of not moving where motion was found
_COARSE = 8
"""Pixels in one, a side, of the grid on which motion is carried to where none is known."""
_SPREAD = 1.0  # standard deviation of the neighbourhood that proposals are judged over
_SMOOTH = 0.5  # the same, of what is found
_DECIDED = 0.05  # cost at which a proposal's weight has fallen to 1/e


# Small things that move farther than flow follows: a ball in flight. From coarse to fine, flow
# finds what is still visible when the picture is small. What is smaller than its own step is lost:
# drawn from both pictures, it is in two places and pale in each. Such a thing stands out from its
# surroundings in both pictures, and the flow explains it in neither.
Places = NDArray[np.intp]
"""Cells, (n, 2), x and y. Some may be outside the grid."""

_STANDS_OUT = 24.0
"""Levels by which a thing differs from the mean around it, a lost place from where flow leads."""
_AROUND = 0.1
"""Half the side of these surroundings, in proportion to the shorter side of the grid."""
_LEAST_THING, _MOST_THING = 4, 0.01  # cells of a thing; the most in proportion to the grid
_LOST = 0.4  # share of a thing that the flow must have lost
_MANY, _FEW = 64, 12
"""Things beyond which a picture is in pieces, and none of them is told from another: in older
streams, and today. Of 40 lit windows, the wrong ones were paired ("Leaps")."""
_NEAR, _FAR = 2.0, 0.25
"""Cells that a leap is longer than; what it is shorter than, in proportion to the shorter side."""
_UNLIKE = 1.0
"""Things are not the same if the logarithms of contrast and of area, and half the way as part of
the farthest, differ by more in all."""
_EXPLAINED = 0.5
"""Part of a thing's contrast by which it may differ from what it comes to, on average."""


_HALF = np.float32(0.51)
"""Vectors are rounded so; from half a cell exactly, decoders would go both ways."""


class Leap(NamedTuple):
    """A thing that is seen in both pictures."""

    left: Places
    """Where it and its edge are in the left picture."""
    right: Places
    """The same in the right picture."""
    vector: NDArray[np.float32]
    """Motion from the left picture to the right one: float32 (2,), x and y in cells."""


class _Things(NamedTuple):
    """Things that stand out in one picture and are lost; later arrays have one row a thing."""

    labels: NDArray[np.int32]
    """Which number has each cell of the grid."""
    numbers: NDArray[np.intp]
    centres: NDArray[np.float64]
    areas: NDArray[np.float64]
    contrasts: NDArray[np.float64]

    def places(self, thing: int) -> Places:
        """The cells of a thing."""
        return np.argwhere(self.labels == self.numbers[thing])[:, ::-1]

    def whole(self, thing: int) -> Places:
        """The cells of a thing and those next to them, which its edge is in."""
        mask = np.asarray(self.labels == self.numbers[thing], np.uint8)
        return np.argwhere(cv2.dilate(mask, np.ones((3, 3), np.uint8)))[:, ::-1]


def find_leaps(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    missed_left: NDArray[np.float32],
    missed_right: NDArray[np.float32],
    most: int = _FEW,
) -> list[Leap]:
    """The leaps between two pictures, luma on the grid, float32 (h, w): pairs that look alike.

    `missed_left`: by how much the left picture differs from where the flow leads, same shape, and
    `missed_right` the right one. `most`: things in a picture, beyond which none leaps.
    """
    one = _things(left, missed_left > _STANDS_OUT, most)
    other = _things(right, missed_right > _STANDS_OUT, most)
    if not len(one.numbers) or not len(other.numbers):
        return []
    ways = other.centres[None] - one.centres[:, None]
    unlike = _unlikeness(one, other, np.hypot(ways[..., 0], ways[..., 1]), min(left.shape))
    best, back = unlike.argmin(axis=1), unlike.argmin(axis=0)
    found = []
    for n, m in enumerate(best.tolist()):
        places, vector = one.places(n), ways[n, m].astype(np.float32)
        if back[m] != n or unlike[n, m] >= _UNLIKE:
            continue
        there = inside(places, vector, left.shape)
        if len(there) == len(places):
            apart = left[places[:, 1], places[:, 0]] - right[there[:, 1], there[:, 0]]
            if float(np.abs(apart).mean()) < _EXPLAINED * abs(one.contrasts[n]):
                found.append(Leap(one.whole(n), other.whole(m), vector))
    return found


def inside(places: Places, vector: NDArray[np.float32], shape: tuple[int, int]) -> Places:
    """The places moved by a vector, in whole cells, as far as they are within a grid of `shape`."""
    moved = places + np.floor(vector + _HALF).astype(np.intp)
    within = (moved >= 0) & (moved < shape[::-1])
    return np.asarray(moved[within.all(axis=1)], np.intp)


def _things(picture: NDArray[np.float32], lost: NDArray[np.bool_], most: int) -> _Things:
    side = 2 * round(_AROUND * min(picture.shape)) + 1
    around = cv2.blur(picture, (side, side), borderType=cv2.BORDER_REPLICATE)
    out = picture - around
    masks = (np.asarray(sign * out > _STANDS_OUT, np.uint8) for sign in (1, -1))
    (count, bright), (_, dark) = (cv2.connectedComponents(one, connectivity=4) for one in masks)
    labels = np.asarray(bright + dark + (count - 1) * (dark > 0), np.int32)
    y, x = np.indices(labels.shape)
    each = np.ones(labels.shape), lost, x, y, out
    areas, gone, *sums = (np.bincount(labels.ravel(), one.ravel()) for one in each)
    fits = (areas >= _LEAST_THING) & (areas <= _MOST_THING * labels.size) & (gone >= _LOST * areas)
    numbers = np.flatnonzero(fits[1:]) + 1
    if len(numbers) > most:
        numbers = numbers[:0]
    across, down, contrasts = (one[numbers] / areas[numbers] for one in sums)
    own = areas[numbers].astype(np.float64)
    return _Things(labels, numbers, np.stack([across, down], 1), own, contrasts)


def _unlikeness(
    one: _Things, other: _Things, ways: NDArray[np.float64], side: int
) -> NDArray[np.float64]:
    """How unlike each of `one` is to each of `other`, (n, m); infinite where they cannot be one."""
    contrast = one.contrasts[:, None] / other.contrasts[None]
    area = one.areas[:, None] / other.areas[None]
    parts = ways / (_FAR * side)
    unlike = np.abs(np.log(np.abs(contrast))) + np.abs(np.log(area)) + parts / 2
    possible = (contrast > 0) & (parts < 1) & (ways > _NEAR)
    return np.asarray(np.where(possible, unlike, np.inf), np.float64)


class FrameMotion(NamedTuple):
    """Motion at the pixels of a frame, on a grid of a quarter of the size."""

    vectors: Flow
    """Motion from the left picture to the right one: float32 (h, w, 2), in pixels of the grid."""
    left: FloatImage
    """Distance of the motion at the left picture from `vectors`: float32 (h, w), as theirs."""
    right: FloatImage
    """The same at the right picture."""
    apart: FloatImage
    """Levels of luma by which the pictures moved by `vectors` differ, beyond their means: float32
    (h, w). 0 in older streams: there all is blended."""


class MotionBetween:
    """The motion between two pictures, at any time. It is found in their luma (`gray`) alone."""

    def __init__(
        self, left: Picture, right: Picture, preset: int = PRESET, estimator: int = MOTION_ESTIMATOR
    ) -> None:
        """Find the motion between two pictures, luma, uint8 (H, W), with a preset of DIS.

        `estimator`: an id that the stream's header gives.
        """
        height, width = left.shape
        half, self._size = ((-(-width // n), -(-height // n)) for n in (2, 4))
        # What is finer than this is lost in coding, and takes four times as long.
        pair = shrunk(left, half), shrunk(right, half)
        forward, backward = dense_flow(*pair, preset), dense_flow(*pair[::-1], preset)
        self._forward = self._known(forward, trust(forward, backward))
        self._backward = self._known(backward, trust(backward, forward))
        self._left, self._right = (
            shrunk(picture.astype(np.float32), self._size) for picture in (left, right)
        )
        self._grid = pixel_grid(self._size[1], self._size[0])
        self._blends_all = estimator in (WITHOUT_LEAPS, WITH_GHOSTS)
        self._lighter = self._left.mean() - self._right.mean()
        most = _FEW if estimator == MOTION_ESTIMATOR else _MANY
        self._leaps = [] if estimator == WITHOUT_LEAPS else self._leap(most)

    def _leap(self, most: int) -> list[Leap]:
        """The leaps, which the flow takes from now on; `most`: see `find_leaps`."""
        behind = warp(self._right, self._grid + self._forward)
        ahead = warp(self._left, self._grid + self._backward)
        missed = cv2.absdiff(self._left, behind), cv2.absdiff(self._right, ahead)
        leaps = find_leaps(self._left, self._right, *missed, most)
        for leap in leaps:
            _put(self._forward, leap.left, leap.vector)
            _put(self._backward, leap.right, -leap.vector)
        return leaps

    def _with_leaps(self, vectors: Flow, time: np.float32) -> Flow:
        """The vectors, and those of the leaps where these are at the time."""
        vectors = vectors.copy()
        for left, right, vector in self._leaps:
            for places, part in ((left, time), (right, time - 1)):
                _put(vectors, inside(places, part * vector, vectors.shape[:2]), vector)
        return vectors

    @cached_property
    def _unmoved(self) -> FloatImage:
        return _blurred(_differ(self._left, self._right, _STILL) + _STAYS, _SPREAD)

    def at(self, time: float) -> FrameMotion:
        """The motion at a time, 0 at the left picture and 1 at the right one."""
        there, back = np.float32(time), np.float32(1 - time)
        ahead, behind = self._projected(self._forward, there), self._projected(self._backward, back)
        behind = -behind
        proposals = [ahead, behind]
        if self._leaps:
            proposals.append(self._with_leaps(ahead, there))
        costs = [_blurred(self._cost(v, there), _SPREAD) for v in proposals]
        least = np.minimum(np.minimum.reduce(costs), self._unmoved)
        weights = [cv2.exp((least - cost) / _DECIDED) for cost in (*costs, self._unmoved)]
        # What does not move has no vector to add.
        moving = sum(one[..., None] * v for one, v in zip(weights, proposals, strict=False))
        vectors = _blurred(moving / sum(weights)[..., None], _SMOOTH)
        missed_left, missed_right = (_blurred(one, _SMOOTH) for one in self._missed(vectors, there))
        return FrameMotion(vectors, missed_left, missed_right, self._apart(vectors, there))

    def _apart(self, vectors: Flow, time: np.float32) -> FloatImage:
        if self._blends_all:
            return np.zeros(self._left.shape, np.float32)
        left, right = self._moved(vectors, time)
        # Light that changes everywhere crosses over.
        return _blurred(np.abs(left - right - self._lighter), _SPREAD)

    def _known(self, flow: Flow, trusted: FloatImage) -> Flow:
        """Flow of half the size on the grid, where it can be trusted or from around."""
        scale = np.divide(self._size, flow.shape[1::-1]).astype(np.float32)
        return _filled(shrunk(flow, self._size) * scale, shrunk(trusted, self._size))

    def _projected(self, flow: Flow, share: np.float32) -> Flow:
        """The flow of what is at each pixel after that share of its way."""
        vectors = flow
        for _ in range(_ROUNDS):
            vectors = warp(flow, self._grid - share * vectors)
        return vectors

    def _missed(self, vectors: Flow, time: np.float32) -> tuple[FloatImage, FloatImage]:
        """How far the motion at the left and at the right picture is from `vectors`."""
        to_left, to_right = self._grid - time * vectors, self._grid + (1 - time) * vectors
        left = _length(warp(self._forward, to_left) - vectors) + self._outside(to_left)
        right = _length(warp(self._backward, to_right) + vectors) + self._outside(to_right)
        return left, right

    def _moved(self, vectors: Flow, time: np.float32) -> tuple[FloatImage, FloatImage]:
        """Luma of both pictures where the vectors lead."""
        there = warp(self._left, self._grid - time * vectors)
        return there, warp(self._right, self._grid + (1 - time) * vectors)

    def _cost(self, vectors: Flow, time: np.float32) -> FloatImage:
        left, right = self._missed(vectors, time)
        missed = np.minimum(left, _FARTHEST) + np.minimum(right, _FARTHEST)
        return np.asarray(missed / 2 + _differ(*self._moved(vectors, time), _LEVELS), np.float32)

    def _outside(self, positions: Flow) -> FloatImage:
        """0 inside the pictures; a pixel outside, as far as can be."""
        x, y = cv2.split(positions)
        width, height = self._size
        beyond = np.maximum(np.maximum(-x, x - (width - 1)), np.maximum(-y, y - (height - 1)))
        return np.asarray(_FARTHEST * np.clip(beyond, 0, 1), np.float32)


def _put(vectors: Flow, places: Places, vector: NDArray[np.float32]) -> None:
    vectors[places[:, 1], places[:, 0]] = vector


def _filled(flow: Flow, trusted: FloatImage) -> Flow:
    """The flow, and where it is not trusted, such as beyond the border, that of the places around.
    `trusted`: float32 (h, w), 0 to 1."""
    height, width = trusted.shape
    size = -(-width // _COARSE), -(-height // _COARSE)
    weight = (trusted**2)[..., None]
    known = shrunk(np.dstack([flow * weight, weight]), size)
    around = np.full_like(known, (0, 0, 1e-6))
    for radius, share in ((1, 1), (4, 1e-2), (16, 1e-4)):
        around += np.float32(share) * _blurred(known, radius)
    filled = cv2.resize(around[..., :2] / around[..., 2:], (width, height))
    return np.asarray(filled + weight * (flow - filled), np.float32)


def _blurred(image: NDArray[np.float32], radius: float) -> NDArray[np.float32]:
    return np.asarray(cv2.GaussianBlur(image, (0, 0), radius), np.float32)


def magnitude(x: FloatImage, y: FloatImage) -> FloatImage:
    """Lengths of vectors, rounded the same wherever the arrays lie in memory.

    OpenCV's own are not, so that now and then a pixel of a decoded frame came out otherwise.
    """
    return np.asarray(np.sqrt(x * x + y * y), np.float32)


def _length(vectors: Flow) -> FloatImage:
    return magnitude(*cv2.split(vectors))


def _differ(one: FloatImage, other: FloatImage, levels: float) -> FloatImage:
    return np.asarray(np.minimum(cv2.absdiff(one, other), _BRIGHTEST) / levels, np.float32)
