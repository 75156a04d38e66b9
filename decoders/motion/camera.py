"""The camera's path as a displacement at every pixel: affine in space, linear in time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.camera import CAMERA, Camera, camera_nodes, camera_unit
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.bend import Bend
from gsvc.decoders.motion.estimation import Flow


class CameraMotion:
    """The camera's path over an interval; see `MotionSource`."""

    def __init__(self, interval: Interval, _before: Sample | None, geometry: Geometry) -> None:
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
    return _spread(corners * camera_unit(geometry), geometry.height, geometry.width)


def _spread(corners: NDArray[np.floating], height: int, width: int) -> Flow:
    """The affine field with `corners`, (3, 2), at the top left, top right and bottom left pixel."""
    start, right, down = corners.astype(np.float32)
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
    known = [0, *camera_nodes(place, length, camera.step_log2)]
    values = np.concatenate([np.zeros((1, 6)), camera.corners.reshape(-1, 6)])
    if place is Place.BETWEEN:
        known, values = [*known, length], np.concatenate([values, np.zeros((1, 6))])
    drawn = np.stack([np.interp(times, known, one) for one in values.T], axis=1)
    return drawn.reshape(-1, 3, 2)
