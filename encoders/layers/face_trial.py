"""Trials of an interval's faces: rendered as the decoder will, on a few frames."""

from dataclasses import replace
from functools import cached_property

from gsvc.codec.scaffold.layers.faces import FACES, Faces
from gsvc.codec.scaffold.types import Interval
from gsvc.encoders.distortion import Judge, Reference
from gsvc.encoders.drawn_interval import DrawnInterval

_JUDGED = 4
"""Frames of an interval that are looked at, at most."""


class FaceTrial:
    """Renders an interval under other faces."""

    def __init__(self, drawn: DrawnInterval, judge: Judge, lmbda: float) -> None:
        """`lmbda`: the distortion, over pixels and frames, that a bit must save."""
        self.interval, self.lmbda = drawn.interval, lmbda
        self._drawn, self._judge, self._times = drawn, judge, drawn.times(_JUDGED)

    def distortion(self, faces: Faces | None) -> float:
        """That of the frames drawn, summed over pixels and frames."""
        interval = with_faces(self.interval, faces)
        drawn = sum(
            reference.total(self._drawn.picture(interval, time))
            for time, reference in self._references.items()
        )
        return drawn * self._drawn.last / len(self._times)

    @cached_property
    def _references(self) -> dict[int, Reference]:
        return {time: self._judge.reference(self._drawn.source_at(time)) for time in self._times}


def with_faces(interval: Interval, faces: Faces | None) -> Interval:
    """The interval with these faces in place of its own."""
    return replace(interval, values={**interval.values, FACES: faces})
