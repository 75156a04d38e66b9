"""Frames on the way: what may be in them, while it is not known which tracks are objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gsvc.decoders.analysis.boxes import clipped, within
from gsvc.decoders.analysis.pieces import Piece
from gsvc.decoders.analysis.tracker import Track
from gsvc.decoders.analysis.types import Box, CameraStep

_VISIBLE = 0.3
"""Share of an object within the picture, below which it is not shown."""


@dataclass(eq=False)
class Draft:
    """One frame."""

    frame: int
    """Its number, from 0."""
    ticks: int
    """Its pts."""
    piece: Piece
    """Where it is from."""
    offset: int
    """Frames since the piece's begin, from 1."""
    objects: list[tuple[Track, Box]] = field(default_factory=list)
    """What may be in it."""
    activity: float | None = None
    """As in `FrameAnalysis`."""
    camera: CameraStep | None = None
    """As in `FrameAnalysis`."""
    is_cut: bool = False
    """Whether a scene begins here."""

    @property
    def is_decided(self) -> bool:
        """Whether all of its tracks are known to be objects or not."""
        return all(track.confirmed or track.ended for track, _ in self.objects)

    def shown(self, size: tuple[int, int]) -> Iterator[tuple[Track, Box]]:
        """The objects, by number, that are in a picture of that width and height, and where."""
        whole = np.array([0.0, 0.0, *size])
        for track, box in sorted(self.objects, key=lambda pair: pair[0].number):
            if track.confirmed and within(box, whole) > _VISIBLE:
                yield track, clipped(box, size)


class Queue:
    """Holds frames, a run at a time, until they are decided."""

    def __init__(self) -> None:
        self._runs: list[list[Draft]] = []

    def put(self, run: list[Draft]) -> None:
        """Add the next frames."""
        self._runs.append(run)

    def decided(self) -> Iterator[Draft]:
        """Take out those that are decided; the last run stays."""
        while len(self._runs) > 1 and all(draft.is_decided for draft in self._runs[0]):
            yield from self._runs.pop(0)

    def all(self) -> Iterator[Draft]:
        """Take out everything."""
        while self._runs:
            yield from self._runs.pop(0)
