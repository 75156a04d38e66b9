"""What is left of the face that a clip shows: a metric inside its box, and whether its mouth moves.

Faces and their 468 points come from MediaPipe's networks (Y. Kartynnik et al., arXiv:1907.06724),
run on source and output. The face is the most probable one of a frame of the source. The source's
are found once for a clip, for all metrics here and all decodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import TestClip
from gsvc.encoders.scaffold.face_landmarks import LIPS, OUTER_EYE_CORNERS, FaceMesh, Square, apart
from gsvc.eval.metrics.base import Frames, Metric, ProvedMetric, check_pairs
from gsvc.eval.metrics.cvvdp import Cvvdp
from gsvc.eval.metrics.semantic import FACE_MODELS, NO_FACE, models_version
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE, StLpips

_MARGIN = 0.15
"""Of the points' hull on each side, for what moves with a face."""
_LEAST_SIDE = SMALLEST_SIDE
"""Pixels: ST-LPIPS needs them. CVVDP needs fewer, but both look at one box."""
SPEAKS = 0.01
"""Standard deviation of the opening, in distances of the eyes, from which a mouth moves."""

Box = tuple[slice, slice]


class InsideFace(Metric):
    """The metric it is named after, inside the box of the clip's face and a margin around.

    The box lies around the points of the source's face on all frames, 15 % wider on each side. It
    is enlarged only to the 32 pixels a side that ST-LPIPS needs, and moved into the picture. NaN
    without a face.
    """

    nothing = NO_FACE

    def __init__(self, inner: ProvedMetric) -> None:
        self._inner = inner
        self.name = f"face_{inner.name}"
        self.unit, self.per_frame = inner.unit, inner.per_frame
        self.higher_is_better = inner.higher_is_better

    def version(self) -> str:
        """See `Metric.version`."""
        _face_points()
        models = models_version(*FACE_MODELS)
        return f"{self._inner.version()}, in the box of the face on all frames, {models}"

    def measure(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """See `Metric.measure`."""
        for test in tests:
            check_pairs(source.frames, test)
        box = _box(source)
        if box is None:
            return np.full((len(tests), len(indices) if self.per_frame else 1), np.nan)
        face = TestClip(source.name, _cropped(source.frames, box), source.frame_rate)
        return self._inner.measure(face, [_cropped(test, box) for test in tests], indices)


class MouthOpening(ProvedMetric):
    """Whether the mouth opens when the source's does: the correlation of both openings over time.

    Pearson's, -1 to 1. The opening is the distance of the inner lips over that of the outer eye
    corners. 1 = in step; about 0 where the output's mouth does not move, 0 where its face is lost.
    All frames count whose source has a face. NaN where no mouth moves in the source.
    """

    name = "mouth_opening"
    higher_is_better = True
    per_frame = False
    golden = None  # a made picture shows no face
    advice = "bring the models again: gsvc models pull"
    nothing = "no mouth moves in the source"

    def version(self) -> str:
        """See `Metric.version`."""
        _face_points()
        return f"correlation over all frames, {models_version(*FACE_MODELS)}"

    def _values(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        faces = main_faces(source)
        spoken = np.array([opening(face.points) for face in faces.values()])
        if np.isnan(spoken).all() or np.nanstd(spoken) < SPEAKS:
            return np.full((len(tests), 1), np.nan)
        points, squares = _face_points().points, {t: face.square for t, face in faces.items()}
        shown = [[opening(points(test[t], at)) for t, at in squares.items()] for test in tests]
        return np.array([[_correlation(spoken, np.array(openings))] for openings in shown])


@dataclass(frozen=True)
class MainFace:
    """The face of a frame."""

    square: Square
    """Where it is looked for, also in the output."""
    points: NDArray[np.float64] | None
    """(468, 2), pixels; None where the second network sees no face in the square."""


_last: dict[str, dict[int, MainFace]] = {}


def main_faces(source: TestClip) -> dict[int, MainFace]:
    """By frame, the most probable face of those that have any; kept for the last clip.

    Raises MissingModelError and MissingDependencyError.
    """
    if source.sha256 not in _last:
        look = _face_points()
        squares = {t: look.squares(frame)[:1] for t, frame in enumerate(source.frames)}
        found = {
            t: MainFace(square, look.points(source.frames[t], square))
            for t, first in squares.items()
            for square in first
        }
        _last.clear()
        _last[source.sha256] = found
    return _last[source.sha256]


@cache
def _face_points() -> FaceMesh:
    return FaceMesh()


def _box(source: TestClip) -> Box | None:
    points = [face.points for face in main_faces(source).values() if face.points is not None]
    if not points:
        return None
    height, width = source.frames[0].shape[:2]
    low, high = np.min(points, axis=(0, 1)), np.max(points, axis=(0, 1))
    return _side(low[1], high[1], height), _side(low[0], high[0], width)


def _side(low: float, high: float, size: int) -> slice:
    """From even to even, or to the end of a picture of odd size."""
    margin = max(_MARGIN * (high - low), (_LEAST_SIDE - (high - low)) / 2)
    first, last = int((low - margin) // 2) * 2, int(-((high + margin) // -2)) * 2
    first = min(max(0, first), max(0, (size - _LEAST_SIDE) // 2 * 2))
    return slice(first, min(size, max(last, first + _LEAST_SIDE)))


def opening(points: NDArray[np.float64] | None) -> float:
    """Of a mouth, in distances of the outer eye corners; NaN without points, (468, 2)."""
    if points is None:
        return float("nan")
    lips, eyes = (apart(points, pair) for pair in (LIPS, OUTER_EYE_CORNERS))
    return lips / max(eyes, 1.0)


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Pearson's, where both are known; 0 where the other is constant or known at half at most."""
    both = np.isfinite(one) & np.isfinite(other)
    if 2 * both.sum() <= np.isfinite(one).sum() or min(np.std(one[both]), np.std(other[both])) == 0:
        return 0.0
    return float(np.corrcoef(one[both], other[both])[0, 1])


def _cropped(frames: Frames, box: Box) -> list[Picture]:
    return [np.ascontiguousarray(frame[box]) for frame in frames]


METRICS: tuple[Metric, ...] = (InsideFace(Cvvdp()), InsideFace(StLpips("vgg")), MouthOpening())
