"""What is left of the face that a clip shows: a metric inside its box, and whether its mouth moves.

Faces and their 468 points come from MediaPipe's networks, run on source and output. The face is the
most probable one of a frame of the source.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.encoders.people.face_points import OUTER_EYE_CORNERS, FacePoints, Square
from gsvc.eval.metrics.base import Metric
from gsvc.eval.metrics.cvvdp import Cvvdp
from gsvc.eval.metrics.pairing import check_pairs
from gsvc.eval.metrics.proved import Frames, ProvedMetric
from gsvc.eval.metrics.semantic import FACE_MODELS, NO_FACE, models_version
from gsvc.eval.metrics.shift_tolerant import StLpips

_LIPS = (13, 14)
"""Of the 468 points: the middle of the upper lip's and of the lower lip's inner edge."""
_MARGIN = 0.15
"""Of the points' hull on each side, for what moves with a face."""
_LEAST_SIDE = 64
"""Pixels: all metrics measure a box of that size."""
_BOX_STRIDE = 4
"""The box is that of one frame in four."""
_SPEAKS = 0.01
"""Standard deviation of the opening, in distances of the eyes, from which a mouth moves."""

Box = tuple[slice, slice]


class InsideFace(Metric):
    """Another metric inside one box a clip: where its face is at some time, and a margin around.

    The box lies around the points of the source's face on every fourth frame, 15 % wider on each
    side, 64 pixels a side at least where the picture has them. NaN without a face.
    """

    nothing = NO_FACE

    def __init__(self, inner: ProvedMetric) -> None:
        self._inner = inner
        self.name = f"face_{inner.name}"
        self.unit, self.per_frame = inner.unit, inner.per_frame
        self.higher_is_better = inner.higher_is_better

    @cached_property
    def _faces(self) -> FacePoints:
        return FacePoints()

    def version(self) -> str:
        """See `Metric.version`."""
        _ = self._faces
        return f"{self._inner.version()}, in the face's box, {models_version(*FACE_MODELS)}"

    def measure(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """See `Metric.measure`."""
        for test in tests:
            check_pairs(source.frames, test)
        box = self._box(source.frames)
        if box is None:
            return np.full((len(tests), len(indices) if self.per_frame else 1), np.nan)
        face = TestClip(source.name, _cropped(source.frames, box), source.frame_rate)
        return self._inner.measure(face, [_cropped(test, box) for test in tests], indices)

    def _box(self, frames: Frames) -> Box | None:
        seen = [self._points(frame) for frame in frames[::_BOX_STRIDE]]
        points = [one for one in seen if one is not None]
        if not points:
            return None
        low, high = np.min(points, axis=(0, 1)), np.max(points, axis=(0, 1))
        margin = np.maximum(_MARGIN * (high - low), (_LEAST_SIDE - (high - low)) / 2)
        width, height = (
            slice(max(0, int(a) // 2 * 2), min(size, -(-int(np.ceil(b)) // 2) * 2))
            for a, b, size in zip(low - margin, high + margin, frames[0].shape[1::-1], strict=True)
        )
        return height, width

    def _points(self, frame: Picture) -> NDArray[np.float64] | None:
        squares = self._faces.squares(frame)
        return self._faces.points(frame, squares[0]) if squares else None


class MouthOpening(ProvedMetric):
    """Whether the mouth opens when the source's does: the correlation of both openings over time.

    The opening is the distance of the inner lips over that of the outer eye corners. 1 = in step;
    about 0 where the output's mouth does not move, 0 where its face is lost. All frames count whose
    source has a face. NaN where no mouth moves in the source.
    """

    name = "mouth_opening"
    higher_is_better = True
    per_frame = False
    golden = None  # a made picture shows no face
    advice = "bring the models again: gsvc models pull"
    nothing = "no mouth moves in the source"

    @cached_property
    def _faces(self) -> FacePoints:
        return FacePoints()

    def version(self) -> str:
        """See `Metric.version`."""
        _ = self._faces
        return f"correlation over all frames, {models_version(*FACE_MODELS)}"

    def _values(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        found = [(t, self._faces.squares(frame)) for t, frame in enumerate(source.frames)]
        places = [(t, squares[0]) for t, squares in found if squares]
        spoken = self._openings(source.frames, places)
        if np.isnan(spoken).all() or np.nanstd(spoken) < _SPEAKS:
            return np.full((len(tests), 1), np.nan)
        return np.array([[_correlation(spoken, self._openings(t, places))] for t in tests])

    def _openings(
        self, frames: Frames, places: Sequence[tuple[int, Square]]
    ) -> NDArray[np.float64]:
        return np.array([self._opening(frames[t], square) for t, square in places])

    def _opening(self, frame: Picture, square: Square) -> float:
        points = self._faces.points(frame, square)
        if points is None:
            return float("nan")
        lips, eyes = (_distance(points, pair) for pair in (_LIPS, OUTER_EYE_CORNERS))
        return lips / max(eyes, 1.0)


def _distance(points: NDArray[np.float64], pair: tuple[int, int]) -> float:
    one, other = points[list(pair)]
    return float(np.linalg.norm(one - other))


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Pearson's, where both are known; 0 where the other is constant or known at half at most."""
    both = np.isfinite(one) & np.isfinite(other)
    if 2 * both.sum() <= np.isfinite(one).sum() or min(np.std(one[both]), np.std(other[both])) == 0:
        return 0.0
    return float(np.corrcoef(one[both], other[both])[0, 1])


def _cropped(frames: Frames, box: Box) -> list[Picture]:
    return [np.ascontiguousarray(frame[box]) for frame in frames]


METRICS: tuple[Metric, ...] = (InsideFace(Cvvdp()), InsideFace(StLpips("vgg")), MouthOpening())
