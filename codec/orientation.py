"""Turning pictures the way they are to be shown."""

from collections.abc import Iterable
from typing import cast

import av
import numpy as np
from av.sidedata.sidedata import SideData
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

Matrix = NDArray[np.int32]
"""FFmpeg's display matrix, shape (3, 3): a point (x, y) of the stored picture is shown at (x, y, 1) @ matrix."""


def display_matrix(frame: av.VideoFrame) -> Matrix | None:
    """The display matrix that comes with a frame (rotation in MP4 and MKV, Exif orientation in JPEG)."""
    for data in cast(Iterable[SideData], frame.side_data):
        if data.type.name == "DISPLAYMATRIX":
            return np.frombuffer(bytes(data), np.int32).reshape(3, 3)
    return None


def swaps_sides(matrix: Matrix | None) -> bool:
    """Whether the matrix turns rows into columns."""
    return matrix is not None and abs(int(matrix[0, 1])) > abs(int(matrix[0, 0]))


def oriented(picture: Picture, matrix: Matrix | None) -> Picture:
    """Apply one of the eight upright orientations; other angles are taken to the nearest of them."""
    if matrix is None:
        return picture
    if swaps_sides(matrix):
        picture = picture.swapaxes(0, 1)
        mirrored, upside_down = matrix[1, 0] < 0, matrix[0, 1] < 0
    else:
        mirrored, upside_down = matrix[0, 0] < 0, matrix[1, 1] < 0
    picture = picture[:, ::-1] if mirrored else picture
    picture = picture[::-1] if upside_down else picture
    return np.ascontiguousarray(picture)
