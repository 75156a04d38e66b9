"""Camera: the camera's path over an interval."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import scaffold
from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import ConfigError, LimitError

MAX_CAMERA = 1 << 14
"""Largest magnitude of a corner's displacement, in camera units."""

_PRESENT = Element("camera.present", "camera", FLAG, contexts=2)
_STEP = Element("camera.step", "camera", UNSIGNED, 4)
_CORNER = Element("camera.corner", "camera", SIGNED, 4 * MAX_CAMERA, contexts=4)


@dataclass(frozen=True, eq=False)
class Camera:
    """The camera's path: an affine motion at nodes, linear in time between, 0 at coded pictures."""

    step_log2: int
    """0 to 4: nodes are 2^step_log2 frames apart."""
    corners: NDArray[np.int16]
    """(nodes, 3, 2): x and y displacement, in camera units, of the top left, top right and bottom
    left corner at each node. Held frames measure it from the coded picture, frames between two from
    where motion linear in time would place the corner."""


def camera_unit(geometry: scaffold.Geometry) -> float:
    """Pixels in one camera unit: a quarter of a motion unit."""
    return geometry.cell / 32


def camera_nodes(place: scaffold.Place, length: int, step_log2: int) -> list[int]:
    """Times of the nodes in an interval of `length` frames, rising.

    They are in frames since the coded picture before the interval (BETWEEN, AFTER) or until the one
    that ends it (BEFORE). No held frame lies beyond the last node.
    """
    step = 1 << step_log2
    if place is scaffold.Place.BETWEEN:
        return list(range(step, length, step))
    farthest = length if place is scaffold.Place.AFTER else length - 1
    return list(range(step, farthest + step, step))


def _code(
    coder: Coder, site: scaffold.Site, _before: Camera | None, value: Camera | None
) -> Camera | None:
    if site.length == 1 and site.place is not scaffold.Place.AFTER:
        return None  # A coded picture alone: nothing moves.
    present = None if coder.reading else int(value is not None)
    if not coder.code(_PRESENT, present, int(site.place is not scaffold.Place.BETWEEN)):
        return None
    step_log2 = coder.code(_STEP, None if value is None else value.step_log2)
    nodes = len(camera_nodes(site.place, site.length, step_log2))
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
    """One node: each corner is predicted from the node before, moved as the first corner moved."""
    corners = np.zeros((3, 2), np.int16)
    for corner in range(3):
        for axis in (0, 1):
            guess = int(before[corner, axis])
            if corner:
                guess += int(corners[0, axis]) - int(before[0, axis])
            part = None if value is None else int(value[corner, axis]) - guess
            placed = guess + coder.code(_CORNER, part, 2 * (corner > 0) + axis)
            if abs(placed) > MAX_CAMERA:
                raise LimitError(f"the camera moves by more than {MAX_CAMERA} units")
            corners[corner, axis] = placed
    return corners


CAMERA: scaffold.Layer[Camera] = scaffold.Layer(
    name="camera",
    scope=scaffold.Scope.INTERVAL,
    header_bit=6,
    default=True,
    code=_code,
    digest=lambda value: scaffold.digest(value.step_log2, value.corners),
)
