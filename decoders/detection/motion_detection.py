"""What moves by itself in a keyframe: motion beside the camera's, and background subtraction.

`Movement` is the decoder's own estimate of motion, on small pictures. It carries boxes from one
keyframe to the next, and tells how the camera moves and where something moves otherwise.

`Background` compares a keyframe with those around it, moved as the camera moved: their median is
the background. Method: N. McFarlane, C. Schofield, "Segmentation and tracking of piglets in
images", 1995 (median background), with the camera's motion undone first.
"""

from functools import cached_property
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.objects import MOVING
from gsvc.decoders.detection.findings import Box, CameraStep, Detection
from gsvc.decoders.interpolation import optical_flow
from gsvc.decoders.interpolation.optical_flow import FloatImage, pixel_grid

SIDE = 256
"""Pixels, the longer side of the small pictures that motion sees."""
_NEAR = 0.3  # pixels of these by which motion may miss the camera's and still be it
_GRID = 8  # every eighth pixel tells the camera's motion
_INNER = 0.2
"""Share of a box, at each side, that is taken for background when it is carried."""
_STILL = np.eye(2, 3)


class SmallPicture:
    """A coded picture as motion sees it."""

    def __init__(self, picture: Picture, side: int = SIDE) -> None:
        """`picture`: RGB uint8 (H, W, 3); `side`: at most its longer side here, in pixels."""
        height, width = picture.shape[:2]
        self.scale = min(1.0, side / max(width, height))
        size = max(1, round(width * self.scale)), max(1, round(height * self.scale))
        self.color = optical_flow.shrunk(picture, size)
        """RGB, uint8 (h, w, 3)."""
        self.luma = optical_flow.gray(self.color)
        """uint8 (h, w)."""


class Movement:
    """Motion between two successive pictures of one scene."""

    def __init__(self, before: SmallPicture, now: SmallPicture) -> None:
        self._now, self.scale = now, now.scale
        self._there = optical_flow.dense_flow(before.luma, now.luma)
        self._back = optical_flow.dense_flow(now.luma, before.luma)

    def forward(self, box: Box) -> Box:
        """Where a box of the picture before is in the present one."""
        return _carried(box, self._there, self.scale)

    def backward(self, box: Box) -> Box:
        """Where a box of the present picture is in the one before."""
        return _carried(box, self._back, self.scale)

    def camera(self, frames: int) -> CameraStep:
        """The camera's motion a frame, where the pictures are `frames` apart."""
        height, width = self._now.luma.shape
        matrix = self.camera_map
        centre = np.array([width, height]) / 2
        shift = (matrix[:, :2] @ centre + matrix[:, 2] - centre) / self.scale / frames
        zoom = float(np.hypot(matrix[0, 0], matrix[1, 0])) ** (1 / frames)
        turn = float(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0]))) / frames
        return CameraStep(float(shift[0]), float(shift[1]), zoom, turn)

    @cached_property
    def speed_before(self) -> FloatImage:
        """Length of the motion beside the camera's, in pixels of the picture before, small."""
        return self._beside(self._there, self.camera_map)

    @cached_property
    def speed_now(self) -> FloatImage:
        """The same at the pixels of the present picture, small, float32 (h, w)."""
        inverse = cv2.invertAffineTransform(self.camera_map)
        return self._beside(self._back, np.asarray(inverse, np.float64))

    @cached_property
    def camera_map(self) -> NDArray[np.float64]:
        """Affine map (2, 3) of small pixels, from the picture before to the present one."""
        height, width = self._now.luma.shape
        at = pixel_grid(height, width)[_GRID // 2 :: _GRID, _GRID // 2 :: _GRID].reshape(-1, 2)
        to = at + self._there[_GRID // 2 :: _GRID, _GRID // 2 :: _GRID].reshape(-1, 2)
        if len(at) < 8:
            return _STILL
        matrix, _ = cv2.estimateAffinePartial2D(at, to, ransacReprojThreshold=_NEAR)
        return _STILL if matrix is None else np.asarray(matrix, np.float64)

    def _beside(self, flow: optical_flow.Flow, camera: NDArray[np.float64]) -> FloatImage:
        grid = pixel_grid(*flow.shape[:2])
        matrix = camera.astype(np.float32)
        own = grid + flow - (grid @ matrix[:, :2].T + matrix[:, 2])
        return np.asarray(np.linalg.norm(own, axis=2), np.float32)


def _carried(box: Box, flow: optical_flow.Flow, scale: float) -> Box:
    height, width = flow.shape[:2]
    left, top, right, bottom = box * scale
    inset = _INNER * (right - left), _INNER * (bottom - top)
    x = slice(*_span(left + inset[0], right - inset[0], width))
    y = slice(*_span(top + inset[1], bottom - inset[1], height))
    inside = flow[y, x].reshape(-1, 2)
    # The faster half: what is still behind an object does not slow it down.
    speed = np.linalg.norm(inside, axis=1)
    shift = np.asarray(np.median(inside[speed >= np.median(speed)], axis=0), np.float64) / scale
    return np.asarray(box + np.tile(shift, 2), np.float64)


def _span(low: float, high: float, size: int) -> tuple[int, int]:
    first = int(np.clip(np.floor(low), 0, size - 1))
    return first, int(np.clip(np.ceil(high), first + 1, size))


SURE = 0.5
"""Score of what moves just enough; what differs but does not move has less."""

_BEFORE, AHEAD = 8, 2  # pictures around one that show its background
_DIFFERS = 24  # levels of 0-255 by which a place is not background
_LITTLE = 18  # levels by which its surroundings may differ and belong to it
_SHARE, _HIGH = 0.3, 90
"""Share, of this percentile of the levels by which an object differs, that its parts differ by."""
_MOVES = 0.6  # pixels of small pictures, of motion beside the camera's, that are movement
_JOINED = 3, 7
"""Pixels of small pictures, across and down, of gaps in an object that are closed."""
_LEAST_AREA, _LEAST_SIDE, _OF_SIDE = 40, 4, 256
"""Of an object, in pixels of small pictures of that side, and of smaller ones."""
_MOST = 0.3
"""Share of a picture that differs, from which there is no background to tell objects from."""
_GHOST, _OUTLINE = 0.85, 1
"""Times the edges of the background that a thing has, on an outline so many pixels each way."""
_FAST = 75  # percentile of the motion in an object that counts: its border moves less


class _Kept(NamedTuple):
    color: Picture
    scale: float
    """Of it, to the picture that was coded."""
    camera: NDArray[np.float64]
    """Affine map (3, 3) from the picture before."""


class Background:
    """Holds the pictures around those of one scene in turn: `add` each, `places` AHEAD later."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._at = 0

    def add(self, small: SmallPicture, arrival: Movement | None) -> None:
        """Take the next picture; `arrival`: the motion to it, found at this size or a smaller."""
        camera = np.eye(3)
        if arrival is not None:
            camera[:2] = arrival.camera_map
            camera[:2, 2] *= small.scale / arrival.scale
        self._kept.append(_Kept(small.color, small.scale, camera))

    def places(self, speed: FloatImage) -> tuple[list[Detection], float]:
        """What differs from the background in the next picture, and how much of the picture moves.

        `speed`: motion beside the camera's, in pixels of what motion sees, float32 (h, w).
        """
        now, scale = self._kept[self._at].color, self._kept[self._at].scale
        if speed.shape != now.shape[:2]:
            speed = np.asarray(cv2.resize(speed, now.shape[1::-1]), np.float32)
        others = [self._aligned(n) for n in range(len(self._kept)) if n != self._at]
        # The background; a picture alone is its own.
        behind = _median([*others, now] if len(others) != 1 else others)
        change = cv2.absdiff(behind, now).max(axis=2)
        differs = _grown(cv2.GaussianBlur(change, (3, 3), 0))
        if len(self._kept) < 3:
            # Of two pictures nobody can say which shows the background: what moves is an object.
            differs = differs & (speed > _MOVES)
        moves = float((differs & (speed > _MOVES)).mean())
        self._at += 1
        if self._at > _BEFORE:
            self._kept.pop(0)
            self._at -= 1
        if differs.mean() >= _MOST:
            return [], moves  # there is no background
        return _places(differs, speed, scale, _edges(now) - _GHOST * _edges(behind)), moves

    def _aligned(self, number: int) -> Picture:
        """A picture as it would look from where the camera is now; what it lacks is as now."""
        kept, at = self._kept, self._at
        first, last = sorted((number, at))
        way: NDArray[np.float64] = np.eye(3)
        for one in kept[first + 1 : last + 1]:
            way = np.asarray(one.camera @ way, np.float64)
        if number > at:
            way = np.asarray(np.linalg.inv(way), np.float64)
        now = kept[at].color.copy()
        size, border = now.shape[1::-1], cv2.BORDER_TRANSPARENT
        moved = cv2.warpAffine(kept[number].color, way[:2], size, dst=now, borderMode=border)
        return np.asarray(moved, np.uint8)


def _median(pictures: list[Picture]) -> Picture:
    """Of each value, by odd-even transposition: of ten pictures ten times as fast as numpy's."""
    rows, count = list(pictures), len(pictures)
    for turn in range(count):
        for at in range(turn % 2, count - 1, 2):
            pair = rows[at], rows[at + 1]
            rows[at], rows[at + 1] = np.minimum(*pair), np.maximum(*pair)
    low, high = rows[(count - 1) // 2], rows[count // 2]
    return np.asarray((low.astype(np.uint16) + high) // 2, np.uint8)


def _grown(change: Picture) -> NDArray[np.bool_]:
    """What differs for sure, and what touches it and differs by a share of that: around an object
    that stands out, coding leaves blocks that differ a little."""
    count, labels = cv2.connectedComponents((change > _LITTLE).astype(np.uint8))
    least = np.full(count, 256.0)
    for label in np.unique(labels[change > _DIFFERS]).tolist():
        least[label] = _SHARE * np.percentile(change[labels == label], _HIGH)
    return np.asarray(change >= least[labels])


def _edges(picture: Picture) -> FloatImage:
    """How steep luma is, float32 (h, w)."""
    luma = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    across, down = (cv2.Sobel(luma, cv2.CV_32F, x, 1 - x) for x in (1, 0))
    return optical_flow.magnitude(across, down)


def _is_ghost(mask: NDArray[np.bool_], edges: FloatImage) -> bool:
    """Whether its outline is in the background alone, which shows what has left."""
    inside = np.pad(mask, _OUTLINE).astype(np.uint8)
    outline = cv2.morphologyEx(inside, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    outline = outline[_OUTLINE:-_OUTLINE, _OUTLINE:-_OUTLINE]
    return bool(edges[outline > 0].sum() < 0)


def _places(
    differs: NDArray[np.bool_], speed: FloatImage, scale: float, edges: FloatImage
) -> list[Detection]:
    """`edges`: of the picture, less those of the background as much as a ghost has more."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, _JOINED)
    joined = cv2.morphologyEx(differs.astype(np.uint8), cv2.MORPH_CLOSE, kernel)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
    found, larger = [], max(1.0, max(differs.shape) / _OF_SIDE)
    for label, (left, top, width, height, area) in enumerate(stats[1:].tolist(), 1):
        if area < _LEAST_AREA * larger**2 or min(width, height) < _LEAST_SIDE * larger:
            continue
        inside = slice(top, top + height), slice(left, left + width)
        if _is_ghost(labels[inside] == label, edges[inside]):
            continue
        fast = float(np.percentile(speed[inside][labels[inside] == label], _FAST)) / _MOVES
        score = SURE * fast if fast < 1 else 1 - SURE / fast
        box = np.array([left, top, left + width, top + height]) / scale
        found.append(Detection(MOVING, box, score))
    return found
