"""Does the meaning survive: are the people of the source found in the output, where they were?

Masks, poses and faces with their 468 points (Y. Kartynnik et al., arXiv:1907.06724) come from
MediaPipe's networks, run on both clips. A frame whose source shows nobody has no value. OKS and its
constants: COCO keypoint evaluation (Ruggero Ronchi and Perona, ICCV 2017). The face is the most
probable one of a frame of the source; the source's are found once for a clip, for all metrics and
all decodes.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import EXTRACTORS
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.decoders.detection.people import COCO17, DetectedPose, PoseEstimator
from gsvc.encoders.face_landmarks import LIPS, OUTER_EYE_CORNERS, FaceMesh, Square, apart
from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter
from gsvc.eval.metrics import base, cvvdp, motion, perceptual

_PERSON = 0.5  # probability from which a pixel is a person's
_VISIBLE = 0.5  # visibility of a source's point from which it counts
_COCO_SIGMAS = np.array(
    [.026, .025, .025, .035, .035, .079, .079, .072, .072,
     .062, .062, .107, .107, .087, .087, .089, .089]
)  # fmt: skip

FACE_MODELS = ("face_detection_short_range", "face_landmark")
NO_FACE = "the source shows no face on the frames measured"


class _SemanticMetric(base.FrameMetric):
    higher_is_better = True
    # A made picture shows nobody. The model files are checked by their SHA-256 instead.
    golden = None
    advice = "bring the models again: gsvc models pull"
    nothing = "the source shows nobody on the frames measured"


_masks, _poses, _face_points = cache(PersonSegmenter), cache(PoseEstimator), cache(FaceMesh)


class MaskIou(_SemanticMetric):
    """Intersection over union of the person masks of source and output.

    NaN where the source has no body pose: without a person the network masks whatever stands out.
    """

    name = "mask_iou"

    def version(self) -> str:
        _ = _masks(), _poses()
        return models_version("selfie_segmentation", "pose_detection")

    def _against(self, source: base.Frames, index: int) -> Callable[[base.Frames], float] | None:
        if not _poses()(source[index]):
            return None
        mask = _masks()(source[index]) >= _PERSON
        return lambda test: intersection_over_union(mask, _masks()(test[index]) >= _PERSON)


class PersonMotionError(motion.MotionError):
    """The motion error on people: where the source's person mask is, and moves.

    The mask is of the frame before, where motion starts. NaN where it shows nobody who moves.
    """

    name = "person_motion_error"
    golden = None
    nothing = "nobody moves in the source on the frames measured"

    def version(self) -> str:
        _ = _masks(), _poses()
        models = models_version("selfie_segmentation", "pose_detection")
        return f"{super().version()}, from people, {models}"

    def _counts(self, picture: Picture) -> NDArray[np.bool_]:
        if not _poses()(picture):
            return np.zeros(picture.shape[:2], bool)
        return _masks()(picture) >= _PERSON


class PoseOks(_SemanticMetric):
    """OKS of the source's people against the best match in the output; 0 without any."""

    name = "pose_oks"

    def version(self) -> str:
        _poses()
        models = models_version("pose_detection", "pose_landmark_full")
        return f"OKS, COCO's 17 points, box area, {models}"

    def _against(self, source: base.Frames, index: int) -> Callable[[base.Frames], float] | None:
        people = [one for one in _poses()(source[index]) if _points(one)[1].any()]

        def mean_of_best(test: base.Frames) -> float:
            found = _poses()(test[index])
            scores = ((key_point_similarity(one, it) for it in found) for one in people)
            return float(np.mean([max(of_one, default=0.0) for of_one in scores]))

        return mean_of_best if people else None


class FaceError(_SemanticMetric):
    """How far the points of faces are from where they were, by the distance of the eyes.

    Normalised mean error: the mean distance of the 468 points over that of the outer eye corners in
    the source; 0 = all in place. The points are looked for where the source has a face; where the
    output has none there, the error is 1, the most. Mean over the source's faces; NaN without any.
    """

    name = "face_nme"
    higher_is_better = False
    nothing = NO_FACE

    def version(self) -> str:
        _face_points()
        return f"468 points over the outer eye corners' distance, {models_version(*FACE_MODELS)}"

    def _against(self, source: base.Frames, index: int) -> Callable[[base.Frames], float] | None:
        look = _face_points()
        squares = look.squares(source[index])
        faces = [(square, look.points(source[index], square)) for square in squares]
        known = [(square, points) for square, points in faces if points is not None]

        def mean_error(test: base.Frames) -> float:
            found = [look.points(test[index], square) for square, _ in known]
            pairs = zip((points for _, points in known), found, strict=True)
            return float(np.mean([normalised_error(one, other) for one, other in pairs]))

        return mean_error if known else None


def normalised_error(reference: NDArray[np.float64], found: NDArray[np.float64] | None) -> float:
    """Mean distance of (468, 2) points over that of the reference's eye corners; 1 at most."""
    if found is None:
        return 1.0
    right, left = reference[list(OUTER_EYE_CORNERS)]
    eyes = max(float(np.linalg.norm(left - right)), 1.0)
    return min(1.0, float(np.linalg.norm(found - reference, axis=1).mean()) / eyes)


def intersection_over_union(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Of two masks of one shape; NaN when both are empty."""
    union = np.count_nonzero(one | other)
    return np.count_nonzero(one & other) / union if union else float("nan")


def key_point_similarity(reference: DetectedPose, found: DetectedPose) -> float:
    """OKS over the reference's visible points, with the area of its box for COCO's segment area."""
    points, visible = _points(reference)
    left, top, right, bottom = reference.box
    area = (right - left) * (bottom - top)
    squares = np.sum((points - _points(found)[0]) ** 2, axis=1)
    return float(np.exp(-squares / (2 * area * (2 * _COCO_SIGMAS) ** 2))[visible].mean())


def _points(pose: DetectedPose) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """COCO's 17 points (17, 2), and which of them can be seen."""
    coco = list(COCO17)
    return pose.points[coco].astype(np.float64), pose.visibility[coco] >= _VISIBLE


def models_version(*names: str) -> str:
    """Names and hashes of models, for a metric's version."""
    return ", ".join(f"{name} {EXTRACTORS[name].sha256[:8]}" for name in names)


_MARGIN = 0.15  # of the points' hull on each side, for what moves with a face
_LEAST_SIDE = perceptual.SMALLEST_SIDE
"""Pixels: ST-LPIPS needs them. CVVDP needs fewer, but both look at one box."""
SPEAKS = 0.01
"""Standard deviation of the opening, in distances of the eyes, from which a mouth moves."""

Box = tuple[slice, slice]


class InsideFace(base.Metric):
    """The metric it is named after, inside the box of the clip's face and a margin around.

    The box lies around the points of the source's face on all frames, 15 % wider on each side. It
    is enlarged to the 32 pixels a side that ST-LPIPS needs, within the picture. NaN without a face.
    """

    nothing = NO_FACE

    def __init__(self, inner: base.ProvedMetric) -> None:
        self._inner = inner
        self.name = f"face_{inner.name}"
        self.unit, self.per_frame = inner.unit, inner.per_frame
        self.higher_is_better = inner.higher_is_better

    def version(self) -> str:
        _face_points()
        models = models_version(*FACE_MODELS)
        return f"{self._inner.version()}, in the box of the face on all frames, {models}"

    def measure(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        for test in tests:
            base.check_pairs(source.frames, test)
        box = _box(source)
        if box is None:
            return np.full((len(tests), len(indices) if self.per_frame else 1), np.nan)
        face = TestClip(source.name, _cropped(source.frames, box), source.frame_rate)
        return self._inner.measure(face, [_cropped(test, box) for test in tests], indices)


class MouthOpening(base.ProvedMetric):
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
        _face_points()
        return f"correlation over all frames, {models_version(*FACE_MODELS)}"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        faces = main_faces(source)
        spoken = np.array([opening(face.points) for face in faces.values()])
        if np.isnan(spoken).all() or np.nanstd(spoken) < SPEAKS:
            return np.full((len(tests), 1), np.nan)
        points, squares = _face_points().points, {t: face.square for t, face in faces.items()}
        shown = [[opening(points(test[t], at)) for t, at in squares.items()] for test in tests]
        return np.array([[_correlation(spoken, np.array(openings))] for openings in shown])


class MainFace(NamedTuple):
    """The face of a frame."""

    square: Square
    """Where it is looked for, also in the output."""
    points: NDArray[np.float64] | None
    """(468, 2), pixels; None where the second network sees no face in the square."""


_last: dict[str, dict[int, MainFace]] = {}


def main_faces(source: TestClip) -> dict[int, MainFace]:
    """By frame, the most probable face, kept for the last clip. Raises as `FaceMesh` does."""
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


def _cropped(frames: base.Frames, box: Box) -> list[Picture]:
    return [np.ascontiguousarray(frame[box]) for frame in frames]


METRICS = (
    MaskIou(),
    PoseOks(),
    FaceError(),
    PersonMotionError(),
    InsideFace(cvvdp.Cvvdp()),
    InsideFace(perceptual.StLpips("vgg")),
    MouthOpening(),
)
