"""The motion between two coded pictures: the decoder's own estimate, on small pictures.

It carries boxes from one picture to the other, tells how the camera moves and what moves by itself.
"""

from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.analysis.types import Box, CameraStep, Detection
from gsvc.decoders.motion.estimation import (
    PRESET,
    Flow,
    dis_flow,
    gray,
    pixel_grid,
    trust,
    warp,
)

MOVING = "moving"
"""The class of what moves and has no other."""

_SIDE = 256
"""Pixels, the longer side of the small pictures. Lengths below are in their pixels."""
_MOVES = 0.6
"""Motion beside the camera's, between two pictures, of what moves by itself."""
_TRUSTED = 0.25
"""Agreement of motion there and back that is taken for motion."""
_DIFFERS = 14.0
"""Levels of 0-255 by which a place differs, were it still."""
_LEAST_AREA, _LEAST_SIDE = 14, 3
"""Of what counts as an object."""
_GRID = 8
"""Every eighth pixel tells the camera's motion."""
_INNER = 0.2
"""Share of a box, at each side, that is taken for background when it is carried."""
_STILL = np.float64([[1, 0, 0], [0, 1, 0]])


class SmallPicture:
    """A coded picture as motion sees it."""

    def __init__(self, picture: Picture) -> None:
        """`picture`: RGB uint8 (H, W, 3)."""
        height, width = picture.shape[:2]
        self.scale = min(1.0, _SIDE / max(width, height))
        size = max(1, round(width * self.scale)), max(1, round(height * self.scale))
        self.luma = np.asarray(
            cv2.resize(gray(picture), size, interpolation=cv2.INTER_AREA), np.uint8
        )


class Movement:
    """Motion between two successive pictures of one scene."""

    def __init__(self, before: SmallPicture, now: SmallPicture) -> None:
        self._before, self._now, self._scale = before, now, now.scale
        self._there = dis_flow(before.luma, now.luma, PRESET)
        self._back = dis_flow(now.luma, before.luma, PRESET)

    def forward(self, box: Box) -> Box:
        """Where a box of the picture before is in the present one."""
        return _carried(box, self._there, self._scale)

    def backward(self, box: Box) -> Box:
        """Where a box of the present picture is in the one before."""
        return _carried(box, self._back, self._scale)

    def camera(self, frames: int) -> CameraStep:
        """The camera's motion a frame, where the pictures are `frames` apart."""
        height, width = self._now.luma.shape
        matrix = self._camera
        centre = np.array([width, height]) / 2
        shift = (matrix[:, :2] @ centre + matrix[:, 2] - centre) / self._scale / frames
        zoom = float(np.hypot(matrix[0, 0], matrix[1, 0])) ** (1 / frames)
        turn = float(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0]))) / frames
        return CameraStep(float(shift[0]), float(shift[1]), zoom, turn)

    @property
    def activity(self) -> float:
        """Share of the picture that moves by itself, 0 to 1."""
        return float(self._moving.mean())

    def moving(self) -> list[Detection]:
        """What moves by itself, where it is in the present picture."""
        joined = cv2.morphologyEx(
            self._moving.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)
        )
        _, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
        found = []
        for label, (left, top, width, height, area) in enumerate(stats[1:].tolist(), 1):
            if area < _LEAST_AREA or min(width, height) < _LEAST_SIDE:
                continue
            speed = float(np.median(self._own[(labels == label) & self._moving]))
            box = np.array([left, top, left + width, top + height]) / self._scale
            found.append(Detection(MOVING, box, 1 - _MOVES / (2 * max(speed, _MOVES))))
        return found

    @cached_property
    def _camera(self) -> NDArray[np.float64]:
        """Affine map (2, 3) of small pixels, from the picture before to the present one."""
        height, width = self._now.luma.shape
        at = pixel_grid(height, width)[_GRID // 2 :: _GRID, _GRID // 2 :: _GRID].reshape(-1, 2)
        to = at + self._there[_GRID // 2 :: _GRID, _GRID // 2 :: _GRID].reshape(-1, 2)
        if len(at) < 8:
            return _STILL
        cv2.setRNGSeed(1)  # the same stream gives the same analysis
        matrix, _ = cv2.estimateAffinePartial2D(at, to, ransacReprojThreshold=_MOVES / 2)
        return _STILL if matrix is None else np.asarray(matrix, np.float64)

    @cached_property
    def _unmoved(self) -> Flow:
        """Where the camera's motion alone would place the present pixels in the picture before."""
        height, width = self._now.luma.shape
        inverse = cv2.invertAffineTransform(self._camera).astype(np.float32)
        grid = pixel_grid(height, width)
        return np.asarray(grid @ inverse[:, :2].T + inverse[:, 2], np.float32)

    @cached_property
    def _own(self) -> NDArray[np.float32]:
        """Length of the motion beside the camera's, float32 (h, w)."""
        grid = pixel_grid(*self._now.luma.shape)
        return np.asarray(np.linalg.norm(self._back + grid - self._unmoved, axis=2), np.float32)

    @cached_property
    def _moving(self) -> NDArray[np.bool_]:
        """What moves by itself: motion that both directions confirm, of what looks different."""
        still = warp(self._before.luma, self._unmoved)
        change = cv2.dilate(cv2.absdiff(still, self._now.luma), np.ones((5, 5), np.uint8))
        agrees = trust(self._back, self._there) > _TRUSTED
        return np.asarray((self._own > _MOVES) & agrees & (change > _DIFFERS))


def _carried(box: Box, flow: Flow, scale: float) -> Box:
    """The box moved and scaled as the pixels in its middle move."""
    height, width = flow.shape[:2]
    left, top, right, bottom = box * scale
    inset = _INNER * (right - left), _INNER * (bottom - top)
    x = slice(*_span(left + inset[0], right - inset[0], width))
    y = slice(*_span(top + inset[1], bottom - inset[1], height))
    inside = flow[y, x].reshape(-1, 2)
    # The faster half: what is still behind an object does not slow it down.
    speed = np.linalg.norm(inside, axis=1)
    shift = np.median(inside[speed >= np.median(speed)], axis=0) / scale
    return box + np.tile(shift, 2)


def _span(low: float, high: float, size: int) -> tuple[int, int]:
    """At least one pixel within the picture."""
    first = int(np.clip(np.floor(low), 0, size - 1))
    return first, int(np.clip(np.ceil(high), first + 1, size))
