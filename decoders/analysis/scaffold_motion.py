"""Where the scaffold moves a place of a coded picture, beside motion linear in time."""

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.codec.scaffold.place import Place
from gsvc.decoders.analysis.pieces import Piece
from gsvc.decoders.motion.bend import MotionSource
from gsvc.decoders.motion.camera import camera_field
from gsvc.decoders.motion.estimation import Flow
from gsvc.decoders.motion.sources import SOURCES, total_bend


class ScaffoldMotion:
    """The displacement of places in the frames of one piece after the other."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`size`: width and height of the frames."""
        self._geometry = Geometry(*size)
        self._piece: Piece | None = None
        self._sources: list[MotionSource] = []
        self._field: tuple[int, Flow | None] = (0, None)

    def shift(
        self, piece: Piece, offset: int, at: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """x and y in pixels, float64 (2,), in the frame `offset` (from 1) of a piece; None: none.

        `at`: x and y of the place, in pixels.
        """
        if piece is not self._piece:
            self._piece, self._field = piece, (0, None)
            self._sources = [
                make(piece.interval, piece.closing, self._geometry) for make in SOURCES
            ]
        if self._field[0] != offset:
            self._field = offset, self._found(piece, offset)
        field = self._field[1]
        if field is None:
            return None
        x, y = np.clip(at, 0, (field.shape[1] - 1, field.shape[0] - 1)).astype(int)
        return np.asarray(-field[y, x], np.float64)  # it points from the frame to the pictures

    def _found(self, piece: Piece, offset: int) -> Flow | None:
        interval = piece.interval
        if interval.place is Place.BETWEEN:
            if interval.dissolves or offset == interval.length:
                return None
            bend = total_bend(self._sources, offset)
            return None if bend is None else bend.vectors
        camera, time = interval[CAMERA], offset
        if interval.place is Place.BEFORE:
            time = interval.length - offset
        if camera is None or not time:
            return None
        return camera_field(camera, interval.place, interval.length, time, self._geometry)
