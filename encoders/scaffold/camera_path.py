"""The camera's path: measured in the source, laid through nodes, sent where it pays.

The step from frame to frame is an affine map, fitted to tracked corners (pyramidal Lucas-Kanade,
Bouguet 2001) with RANSAC (Fischler and Bolles 1981), which leaves out what moves on its own.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.camera import MAX_CAMERA, Camera, camera_nodes, camera_unit
from gsvc.codec.bitstream.scaffold import Geometry, Place
from gsvc.decoders.interpolation.optical_flow import gray, shrunk
from gsvc.decoders.interpolation.scaffold_motion import corners_at
from gsvc.encoders import plans, tuning

_LINES = 144  # height at which corners are tracked
_CORNERS = 120
_LEAST_CORNERS = 12
_STEPS_LOG2 = (4, 3, 2, 1)

Matrix = NDArray[np.float64]
"""Affine map of pixel positions, homogeneous (3, 3), or vectors at three corners, (3, 2)."""


class CameraPath:
    """Where the camera was over consecutive frames."""

    def __init__(self, small: Sequence[Picture], geometry: Geometry, pool: Executor) -> None:
        """`small`: the frames, of `geometry`, as of `tracked_luma`."""
        self._geometry, width, height = geometry, geometry.width, geometry.height
        self._corners = np.array([[0, 0, 1], [width - 1, 0, 1], [0, height - 1, 1]], np.float64).T
        scale = np.diag([width / small[0].shape[1], height / small[0].shape[0], 1.0])
        self._poses = [np.eye(3)]
        """Maps from each frame to the first."""
        for step in pool.map(_step, *zip(*pairwise(small), strict=True)) if len(small) > 1 else ():
            self._poses.append(self._poses[-1] @ scale @ step @ np.linalg.inv(scale))

    def over(self, planned: plans.PlannedInterval) -> Camera | None:
        """The path over an interval, by the fewest nodes that come near; None: nothing moves."""
        place, length, unit = planned.place, planned.length, camera_unit(self._geometry)
        frames = sorted(planned.frames, key=planned.time)
        if not frames:
            return None
        true = np.stack([self._bend(planned, frame) for frame in frames]) / unit
        times = range(1, len(frames) + 1)
        tolerance = tuning.CAMERA_TOLERANCE * self._geometry.motion_unit / unit
        if np.abs(true).mean() < tolerance:
            return None
        camera = None
        for step_log2 in _STEPS_LOG2:
            nodes = camera_nodes(place, length, step_log2)
            if not nodes:
                continue
            flat = true.reshape(-1, 6)
            values = np.stack([np.interp(nodes, times, one) for one in flat.T], axis=1)
            corners = np.clip(np.round(values), -MAX_CAMERA, MAX_CAMERA)
            camera = Camera(step_log2, corners.reshape(-1, 3, 2).astype(np.int16))
            if np.abs(corners_at(camera, place, length, times) - true).mean() < tolerance:
                break
        return camera

    def _bend(self, planned: plans.PlannedInterval, frame: int) -> Matrix:
        """Displacement of the corners of `frame` in the coded picture that it is drawn from;
        between two of them, minus motion linear in time: (3, 2) in pixels."""
        left, right = planned.start, planned.end
        if planned.place is not Place.BETWEEN:
            return self._shift(frame, left if planned.place is Place.AFTER else right)
        share = (frame - left) / planned.length
        if share <= 0.5:
            return self._shift(frame, left) - share * self._shift(right, left)
        return self._shift(frame, right) - (1 - share) * self._shift(left, right)

    def _shift(self, frame: int, key: int) -> Matrix:
        """Displacement of the corners of `frame` in `key`: (3, 2) in pixels."""
        moved = np.linalg.inv(self._poses[key]) @ self._poses[frame] @ self._corners
        return np.asarray((moved - self._corners)[:2].T)


def tracked_luma(picture: Picture) -> Picture:
    """Luma of RGB or luma uint8, (H, W, 3) or (H, W), in which the camera is tracked."""
    height, width = picture.shape[:2]
    scale = min(1.0, _LINES / min(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return shrunk(gray(picture), size)


def _step(before: Picture, now: Picture) -> Matrix:
    """The map from positions in `now` to those in `before`; the identity if it cannot be found."""
    still = np.eye(3)
    corners = cv2.goodFeaturesToTrack(now, _CORNERS, 0.01, 6)
    if corners is None or len(corners) < _LEAST_CORNERS:
        return still
    moved, found, _ = cv2.calcOpticalFlowPyrLK(now, before, corners, None)
    found = found.ravel().astype(bool)
    if found.sum() < _LEAST_CORNERS:
        return still
    map_, inside = cv2.estimateAffine2D(corners[found], moved[found], ransacReprojThreshold=1.0)
    if map_ is None or inside.sum() < max(_LEAST_CORNERS, found.sum() // 3):
        return still
    still[:2] = map_
    return still
