"""Rotating and mirroring pictures by their display matrix."""

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

import av
import numpy as np
from av.filter import Graph
from av.sidedata.sidedata import SideData
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

Matrix = NDArray[np.int32]
"""FFmpeg's display matrix, (3, 3): a stored point (x, y) is shown at (x, y, 1) @ matrix."""

_UNKNOWN_KINDS = range(28, 40)


def display_matrix(frame: av.VideoFrame) -> Matrix | None:
    """A frame's display matrix: from rotation in MP4 and MKV, Exif orientation in JPEG."""
    for data in _side_data(frame):
        if data.type.name == "DISPLAYMATRIX":
            return np.frombuffer(bytes(data), np.int32).reshape(3, 3)
    return None


class Matrices:
    """The display matrix of a video's frames, looked up once for each angle.

    PyAV keeps a frame whose side data was read until the garbage collector runs.
    """

    def __init__(self) -> None:
        self._known: dict[int, Matrix | None] = {}

    def __call__(self, frame: av.VideoFrame) -> Matrix | None:
        angle = frame.rotation
        if angle not in self._known:
            self._known[angle] = display_matrix(frame)
        return self._known[angle]


def swaps_sides(matrix: Matrix | None) -> bool:
    """Whether the matrix maps rows to columns."""
    return matrix is not None and abs(int(matrix[0, 1])) > abs(int(matrix[0, 0]))


def oriented(picture: Picture, matrix: Matrix | None) -> Picture:
    """Apply the nearest of the eight upright orientations."""
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


def _side_data(frame: av.VideoFrame) -> list[SideData]:
    try:
        found = cast(Sequence[SideData], frame.side_data)
    except ValueError:
        # PyAV 18 raises when there is a kind it does not know, such as Exif.
        found = cast(Sequence[SideData], _without_unknown(frame).side_data)
    return [found[index] for index in range(len(found))]  # PyAV 19 iterates over the kinds


def _without_unknown(frame: av.VideoFrame) -> av.VideoFrame:
    graph = Graph()
    last = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1)
    )
    source = last
    for kind in _UNKNOWN_KINDS:
        remover = graph.add("sidedata", f"mode=delete:type={kind}")
        last.link_to(remover)
        last = remover
    sink = graph.add("buffersink")
    last.link_to(sink)
    graph.configure()
    source.push(frame)
    return cast(av.VideoFrame, sink.pull())
