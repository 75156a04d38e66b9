"""Does the meaning survive: are the people of the source found in the output, where they were?

Masks, poses and faces come from MediaPipe's networks, run on both clips. A frame whose source shows
nobody has no value. OKS and its constants: COCO keypoint evaluation (Ruggero
Ronchi and Perona, ICCV 2017); PCK: Yang and Ramanan, TPAMI 2013.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import EXTRACTORS
from gsvc.decoders.detection.people import COCO17, DetectedPose, PoseEstimator
from gsvc.encoders.scaffold.face_landmarks import OUTER_EYE_CORNERS, FaceMesh
from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter
from gsvc.eval.metrics.base import FrameMetric, Frames
from gsvc.eval.metrics.motion import MotionError

_PERSON = 0.5
"""Probability from which a pixel is a person's."""
_VISIBLE = 0.5
"""Visibility of a source's point from which it counts."""
_PCK_REACH = 0.1
"""Of the longer side of the person's box: within it a point is right."""
_COCO_SIGMAS = np.array(
    [.026, .025, .025, .035, .035, .079, .079, .072, .072,
     .062, .062, .107, .107, .087, .087, .089, .089]
)  # fmt: skip

FACE_MODELS = ("face_detection_short_range", "face_landmark")
NO_FACE = "the source shows no face on the frames measured"

Score = Callable[[DetectedPose, DetectedPose], float]


class _SemanticMetric(FrameMetric):
    higher_is_better = True
    # A made picture shows nobody. The model files are checked by their SHA-256 instead.
    golden = None
    advice = "bring the models again: gsvc models pull"
    nothing = "the source shows nobody on the frames measured"

    @cached_property
    def _poses(self) -> PoseEstimator:
        return PoseEstimator()


class MaskIou(_SemanticMetric):
    """Intersection over union of the person masks of source and output.

    NaN where the source has no body pose: without a person the network masks whatever stands out.
    """

    name = "mask_iou"

    @cached_property
    def _masks(self) -> PersonSegmenter:
        return PersonSegmenter()

    def version(self) -> str:
        """See `Metric.version`."""
        _ = self._masks, self._poses
        return models_version("selfie_segmentation", "pose_detection")

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float] | None:
        if not self._poses(source[index]):
            return None
        mask = self._masks(source[index]) >= _PERSON
        return lambda test: intersection_over_union(mask, self._masks(test[index]) >= _PERSON)


class PersonMotionError(MotionError):
    """The motion error on people: where the source's person mask is, and moves.

    The mask is that of the frame before, from whose pixels motion starts. NaN where it shows
    nobody, or nobody who moves.
    """

    name = "person_motion_error"
    golden = None
    nothing = "nobody moves in the source on the frames measured"

    @cached_property
    def _people(self) -> tuple[PersonSegmenter, PoseEstimator]:
        return PersonSegmenter(), PoseEstimator()

    def version(self) -> str:
        """See `Metric.version`."""
        _ = self._people
        models = models_version("selfie_segmentation", "pose_detection")
        return f"{super().version()}, from people, {models}"

    def _counts(self, picture: Picture) -> NDArray[np.bool_]:
        masks, poses = self._people
        if not poses(picture):
            return np.zeros(picture.shape[:2], bool)
        return masks(picture) >= _PERSON


class PoseScore(_SemanticMetric):
    """Key points of the source's people against the best match in the output; 0 without any."""

    def __init__(self, name: str, score: Score, description: str) -> None:
        super().__init__()
        self.name = name
        self._score = score
        self._description = description

    def version(self) -> str:
        """See `Metric.version`."""
        _ = self._poses
        return f"{self._description}, {models_version('pose_detection', 'pose_landmark_full')}"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float] | None:
        people = [one for one in self._poses(source[index]) if _points(one)[1].any()]

        def mean_of_best(test: Frames) -> float:
            found = self._poses(test[index])
            best = [max((self._score(one, it) for it in found), default=0.0) for one in people]
            return float(np.mean(best))

        return mean_of_best if people else None


class FaceError(_SemanticMetric):
    """How far the points of faces are from where they were, by the distance of the eyes.

    Normalised mean error: the mean distance of the 468 points over that of the outer eye corners in
    the source; 0 = all in place. The points are looked for where the source has a face; where the
    output has none there, the error is 1, which is also the most. Mean over the source's faces; NaN
    where it has none.
    """

    name = "face_nme"
    higher_is_better = False
    nothing = NO_FACE

    @cached_property
    def _faces(self) -> FaceMesh:
        return FaceMesh()

    def version(self) -> str:
        """See `Metric.version`."""
        _ = self._faces
        models = models_version(*FACE_MODELS)
        return f"468 points over the outer eye corners' distance, {models}"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float] | None:
        squares = self._faces.squares(source[index])
        faces = [(square, self._faces.points(source[index], square)) for square in squares]
        known = [(square, points) for square, points in faces if points is not None]

        def mean_error(test: Frames) -> float:
            found = [self._faces.points(test[index], square) for square, _ in known]
            pairs = zip((points for _, points in known), found, strict=True)
            return float(np.mean([normalised_error(one, other) for one, other in pairs]))

        return mean_error if known else None


def normalised_error(reference: NDArray[np.float64], found: NDArray[np.float64] | None) -> float:
    """Mean distance of (468, 2) points over that of the reference's outer eye corners; at most 1.

    1 also where nothing was found.
    """
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
    closeness = np.exp(-squares / (2 * area * (2 * _COCO_SIGMAS) ** 2))
    return float(closeness[visible].mean())


def correct_key_points(reference: DetectedPose, found: DetectedPose) -> float:
    """Share of the reference's visible points found within a tenth of the box's longer side."""
    points, visible = _points(reference)
    left, top, right, bottom = reference.box
    reach = _PCK_REACH * max(right - left, bottom - top)
    distances = np.linalg.norm(points - _points(found)[0], axis=1)
    return float(np.mean(distances[visible] <= reach))


def _points(pose: DetectedPose) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """COCO's 17 points (17, 2), and which of them can be seen."""
    coco = list(COCO17)
    return pose.points[coco].astype(np.float64), pose.visibility[coco] >= _VISIBLE


def models_version(*names: str) -> str:
    """Names and hashes of models, for a metric's version."""
    return ", ".join(f"{name} {EXTRACTORS[name].sha256[:8]}" for name in names)


_PCK = f"PCK at {_PCK_REACH} of the box's longer side"
METRICS = (
    MaskIou(),
    PoseScore("pose_oks", key_point_similarity, "OKS, COCO's 17 points, box area"),
    PoseScore("pose_pck", correct_key_points, _PCK),
    FaceError(),
    PersonMotionError(),
)
