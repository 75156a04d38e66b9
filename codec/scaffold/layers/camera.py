"""How the path of the camera is laid out in elements."""

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError, LimitError
from gsvc.codec.limits import MAX_CAMERA
from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.types import Camera, Place, camera_nodes


def code_camera(
    coder: Coder, place: Place, length: int, reading: bool, value: Camera | None
) -> Camera | None:
    """Code the path over an interval of `length` frames, if there is one."""
    if length == 1 and place is not Place.AFTER:
        return None  # A key picture alone: nothing moves.
    present = None if reading else int(value is not None)
    if not coder.code("camera.present", present, int(place is not Place.BETWEEN)):
        return None
    step_log2 = coder.code("camera.step", None if value is None else value.step_log2)
    nodes = len(camera_nodes(place, length, step_log2))
    if value is not None and value.corners.shape != (nodes, 3, 2):
        raise ConfigError(f"a camera path of {value.corners.shape}: {(nodes, 3, 2)} is needed")
    corners = np.zeros((nodes, 3, 2), np.int16)
    before = np.zeros((3, 2), np.int16)
    for node in range(nodes):
        wanted = None if value is None else value.corners[node]
        before = corners[node] = _code_node(coder, before, wanted)
    return Camera(step_log2, corners)


def _code_node(
    coder: Coder, before: NDArray[np.int16], value: NDArray[np.int16] | None
) -> NDArray[np.int16]:
    """One node: the first corner against the node before, the others as if they moved with it."""
    corners = np.zeros((3, 2), np.int16)
    for corner in range(3):
        for axis in (0, 1):
            guess = int(before[corner, axis])
            if corner:
                guess += int(corners[0, axis]) - int(before[0, axis])
            part = None if value is None else int(value[corner, axis]) - guess
            placed = guess + coder.code("camera.corner", part, 2 * (corner > 0) + axis)
            if abs(placed) > MAX_CAMERA:
                raise LimitError(f"the camera moves by more than {MAX_CAMERA} units")
            corners[corner, axis] = placed
    return corners
