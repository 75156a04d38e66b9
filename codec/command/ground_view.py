"""Which part of the ground a camera sees."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def seen_ground(
    homography: Floats, size: tuple[int, int], low: Floats, high: Floats
) -> list[Floats]:
    """Corners of what of a rectangle is in a picture, in metres; empty where nothing is.

    `homography`: from (x, y, 1) in metres to pixels, float64 (3, 3); `size`: width and height of
    the picture; `low`, `high`: corners of the rectangle in metres, float64 (2,). Method: I.
    Sutherland, G. Hodgman, "Reentrant Polygon Clipping", 1974, at the picture's four sides.
    """
    across, down, depth = homography
    sides = depth, across, size[0] * depth - across, down, size[1] * depth - down
    corners = [np.array(one) for one in ((low[0], low[1]), (high[0], low[1]))]
    corners += [np.array(one) for one in ((high[0], high[1]), (low[0], high[1]))]
    for side in sides:
        corners = _clipped(corners, side)
    return corners


def _clipped(corners: list[Floats], side: Floats) -> list[Floats]:
    """What of a polygon lies where `side` @ (x, y, 1) is not below 0."""
    found: list[Floats] = []
    for last, corner in zip([*corners[-1:], *corners[:-1]], corners, strict=True):
        before, now = side @ (*last, 1.0), side @ (*corner, 1.0)
        if (before < 0) != (now < 0):
            found.append(last + (corner - last) * before / (before - now))
        if now >= 0:
            found.append(corner)
    return found
