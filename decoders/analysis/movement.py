"""The motion between two coded pictures: the decoder's own estimate, on small pictures.

It carries boxes from one picture to the other, and tells how the camera moves and where something
moves otherwise.
"""

from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.analysis.types import Box, CameraStep
from gsvc.decoders.motion.estimation import PRESET, Flow, dis_flow, gray, pixel_grid

FloatImage = NDArray[np.float32]

SIDE = 256
"""Pixels, the longer side of the small pictures that motion sees."""
_NEAR = 0.3
"""Pixels of these by which motion may miss the camera's and still be it."""
_GRID = 8
"""Every eighth pixel tells the camera's motion."""
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
        shrunk = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        self.color: Picture = np.asarray(shrunk, np.uint8)
        """RGB, uint8 (h, w, 3)."""
        self.luma = gray(self.color)
        """uint8 (h, w)."""


class Movement:
    """Motion between two successive pictures of one scene."""

    def __init__(self, before: SmallPicture, now: SmallPicture) -> None:
        self._now, self.scale = now, now.scale
        self._there = dis_flow(before.luma, now.luma, PRESET)
        self._back = dis_flow(now.luma, before.luma, PRESET)

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

    def _beside(self, flow: Flow, camera: NDArray[np.float64]) -> FloatImage:
        grid = pixel_grid(*flow.shape[:2])
        matrix = camera.astype(np.float32)
        own = grid + flow - (grid @ matrix[:, :2].T + matrix[:, 2])
        return np.asarray(np.linalg.norm(own, axis=2), np.float32)


def _carried(box: Box, flow: Flow, scale: float) -> Box:
    """The box moved as the pixels in its middle move."""
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
    """At least one pixel within the picture."""
    first = int(np.clip(np.floor(low), 0, size - 1))
    return first, int(np.clip(np.ceil(high), first + 1, size))
