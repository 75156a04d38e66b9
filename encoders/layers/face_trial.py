"""Trials of an interval's faces: rendered as the decoder will, on a few frames."""

from collections.abc import Sequence
from dataclasses import replace

from gsvc.codec.scaffold.layers.faces import FACES, Faces
from gsvc.codec.scaffold.types import Interval
from gsvc.encoders.distortion import Judge
from gsvc.encoders.drawn_interval import DrawnInterval

_JUDGED = 2
"""Frames of an interval that are looked at, at most; what is chosen is judged again at the end."""


class FaceTrial:
    """Renders an interval under other faces."""

    def __init__(self, drawn: DrawnInterval, judge: Judge) -> None:
        self._drawn, self._judge = drawn, judge

    def distortions(self, ways: Sequence[Faces | None]) -> list[float]:
        """Those of the frames drawn, each summed over pixels and frames."""
        intervals = [with_faces(self._drawn.interval, faces) for faces in ways]
        sums, times = [0.0] * len(ways), self._drawn.times(_JUDGED)
        # Motion is found once for all that is drawn of a frame.
        for time in times:
            reference = self._judge.reference(self._drawn.source_at(time))
            for n, interval in enumerate(intervals):
                sums[n] += reference.total(self._drawn.picture(interval, time))
        return [one * self._drawn.last / len(times) for one in sums]


def with_faces(interval: Interval, faces: Faces | None) -> Interval:
    """The interval with these faces in place of its own."""
    return replace(interval, values={**interval.values, FACES: faces})
