"""A pinhole camera that looks at a plane.

Geometry: R. Hartley and A. Zisserman, "Multiple View Geometry in Computer Vision", 2nd ed. 2004,
sections 6.1 and 8.1. The ground is z = 0, in metres; z points up.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

_PERIOD = 4.0
"""Seconds of one sway to and fro."""


@dataclass(frozen=True)
class Camera:
    """A camera that stands still and may turn."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    focal: float
    """Pixels."""
    position: tuple[float, float, float]
    """Metres."""
    target: tuple[float, float, float]
    """What it looks at, at rest; metres."""
    sway: float
    """Degrees by which it turns to and fro, half as much up and down."""

    @property
    def calibration(self) -> Matrix:
        """From directions in the camera's axes to pixels, (3, 3)."""
        centre = self.width / 2, self.height / 2
        return np.array([[self.focal, 0, centre[0]], [0, self.focal, centre[1]], [0, 0, 1]])

    def rotation(self, time: float) -> Matrix:
        """From the world's axes to the camera's (right, down, ahead), (3, 3), `time` in seconds."""
        ahead = _unit(np.subtract(self.target, self.position))
        right = _unit(np.cross(ahead, (0, 0, 1)))
        turn = np.deg2rad(self.sway) * np.sin(2 * np.pi * time / _PERIOD)
        nod = np.deg2rad(self.sway) / 2 * np.sin(np.pi * time / _PERIOD)
        at_rest = np.stack([right, np.cross(ahead, right), ahead])
        return np.asarray(_about_across(nod) @ _about_down(turn) @ at_rest)

    def projection(self, time: float) -> Matrix:
        """From (x, y, z, 1) in metres to pixels times depth, (3, 4)."""
        rotation = self.rotation(time)
        return np.asarray(
            self.calibration @ np.column_stack([rotation, -rotation @ np.array(self.position)])
        )

    def homography(self, time: float) -> Matrix:
        """From (x, y, 1) on the ground in metres to pixels times depth, (3, 3)."""
        return np.asarray(self.projection(time)[:, [0, 1, 3]])


def _unit(vector: Matrix) -> Matrix:
    return np.asarray(vector / np.linalg.norm(vector), np.float64)


def _about_down(angle: float) -> Matrix:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]])


def _about_across(angle: float) -> Matrix:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])
