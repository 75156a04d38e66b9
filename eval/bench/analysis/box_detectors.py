"""Detectors that run on frames everywhere, or a user's own by name; tracks through their boxes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.objects import COCO
from gsvc.codec.weights.extras import find_class
from gsvc.datasets.annotated.truth import NO_ID, Boxes, joined, make_boxes
from gsvc.decoders.detection import coco_detector, people
from gsvc.decoders.detection.findings import Detection, overlap
from gsvc.decoders.detection.tracker import Draft
from gsvc.encoders.coding.cuts import CutDetector
from gsvc.encoders.scaffold.object_coder import SourceFollowing
from gsvc.eval.bench.analysis.accuracy import Pose, pairs


class SeenClip(NamedTuple):
    """What a detector or an analyser may give in place of boxes alone."""

    boxes: Boxes
    poses: Sequence[Pose] | None = None
    """None: key points were not looked for."""


def as_seen(found: object) -> SeenClip:
    """What a detector or an analyser gave. Raises ConfigError when it is something else."""
    seen = found if isinstance(found, SeenClip) else SeenClip(found)  # type: ignore[arg-type]
    if not isinstance(seen.boxes, Boxes):
        kind = type(seen.boxes).__name__
        raise ConfigError(f"the detector or analyser gave {kind}: give what make_boxes makes")
    return seen


_SHOWS = 0.5  # probability from which on a key point counts as visible


class BoxDetector(Protocol):
    """Finds things in the frames of a clip."""

    name: str
    """As on the command line and in tables."""
    labels: frozenset[str] | None
    """The classes that it knows and is judged by; None: it knows none, and is judged by all."""

    def __call__(self, frames: Sequence[Picture]) -> Boxes | SeenClip:
        """Detect in RGB uint8 (H, W, 3), all of one size; ids may be missing.

        Ignored is what it is not sure of: as pseudo-truth it does not count, otherwise it only
        goes on with what was found in the frame before.
        """


class MotionDetector:
    """What moves before a still camera, by OpenCV's mixture of Gaussians for each pixel.

    Z. Zivkovic and F. van der Heijden, "Efficient Adaptive Density Estimation per Image Pixel for
    the Task of Background Subtraction", 2006. It looks at the clip twice: the first time to learn
    the background. The score is the share of a box that moves.
    """

    name = "motion"
    labels: frozenset[str] | None = None

    _DEVIATIONS = 6.0
    """From the background, squared these are its threshold."""
    _BACKGROUND = 0.5
    """Share of the time that makes a colour the background: things may stay for less."""
    _LEAST_AREA = 5e-4
    """Of the picture."""

    def __call__(self, frames: Sequence[Picture]) -> Boxes:
        model = cv2.createBackgroundSubtractorMOG2(
            history=max(2, len(frames)), varThreshold=self._DEVIATIONS**2, detectShadows=False
        )
        model.setBackgroundRatio(self._BACKGROUND)
        for frame in frames:
            model.apply(frame)
        moves = (np.asarray(model.apply(frame, learningRate=0.0), np.uint8) for frame in frames)
        return joined([self._boxes(index, one) for index, one in enumerate(moves)])

    def _boxes(self, index: int, moves: NDArray[np.uint8]) -> Boxes:
        closed = cv2.morphologyEx(moves, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        closed = cv2.morphologyEx(closed, cv2.MORPH_CLOSE, np.ones((9, 5), np.uint8))
        _, _, stats, _ = cv2.connectedComponentsWithStats(closed)
        parts = stats[1:][stats[1:, cv2.CC_STAT_AREA] >= self._LEAST_AREA * moves.size]
        low, size, area = parts[:, :2], parts[:, 2:4], parts[:, cv2.CC_STAT_AREA]
        return make_boxes(
            np.full(len(parts), index),
            np.hstack([low, low + size]),
            score=area / np.maximum(np.prod(size, axis=1), 1),
        )


class PeopleDetector:
    """People by the pose networks, at most 16 a frame.

    The box spans the body's points and the top of the head; the score is the points' mean
    visibility. The constructor raises MissingModelError without the models.
    """

    name = "people"
    labels: frozenset[str] | None = frozenset({"person"})

    _HEAD = 0.08
    """Of the points' height, from the eyes to the top of the head."""
    _SIDES = 0.1
    """Of the points' width, from the outermost joints to the outline."""

    def __init__(self) -> None:
        self._poses = people.PoseEstimator(16)

    def __call__(self, frames: Sequence[Picture]) -> SeenClip:
        """See `BoxDetector`; with their key points."""
        found = [(index, pose) for index, frame in enumerate(frames) for pose in self._poses(frame)]
        height, width = frames[0].shape[:2]
        box = np.array([pose.box for _, pose in found], np.float64).reshape(-1, 4)
        box += np.tile(box[:, 2:] - box[:, :2], 2) * (-self._SIDES, -self._HEAD, self._SIDES, 0)
        boxes = make_boxes(
            [index for index, _ in found],
            np.clip(box, 0, (width, height, width, height)),
            label="person",
            score=[float(pose.visibility.mean()) for _, pose in found],
        )
        return SeenClip(boxes, [_key_points(index, pose) for index, pose in found])


def _key_points(frame: int, pose: people.DetectedPose) -> Pose:
    chosen = list(people.COCO17)
    points, visibility = pose.points[chosen].astype(np.float64), pose.visibility[chosen]
    return Pose(frame, points, visibility > _SHOWS, float(visibility.mean()))


class CocoThings:
    """Things of COCO's classes, by the network of `gsvc analyse --detector coco`.

    What it is not sure of is ignored. The constructor raises MissingModelError without the model,
    MissingDependencyError without onnx.
    """

    name = "coco"
    labels: frozenset[str] | None = frozenset(COCO)

    def __init__(self) -> None:
        self._find = coco_detector.CocoDetector()

    def __call__(self, frames: Sequence[Picture]) -> Boxes:
        found = [(index, one) for index, frame in enumerate(frames) for one in self._find(frame)]
        return make_boxes(
            [index for index, _ in found],
            [one.box for _, one in found],
            label=[one.kind for _, one in found],
            score=[one.score for _, one in found],
            ignored=[not one.begins for _, one in found],
        )


DETECTORS: dict[str, Callable[[], BoxDetector]] = {
    kind.name: kind for kind in (MotionDetector, PeopleDetector, CocoThings)
}


def find_detector(name: str) -> BoxDetector:
    """One of `DETECTORS`, or a user's `module:Class`. Raises ConfigError for anything else."""
    if name in DETECTORS:
        return DETECTORS[name]()
    if ":" not in name:
        known = ", ".join(DETECTORS)
        raise ConfigError(f"unknown detector {name!r}; there are {known}, or write module:Class")
    try:
        detector = find_class(name)()
    except TypeError as error:
        raise ConfigError(f"{name}: {error}: write a class that is made without values") from error
    if not callable(detector) or not hasattr(detector, "labels") or not hasattr(detector, "name"):
        raise ConfigError(f"{name} is no detector: it needs name, labels, and a call with frames")
    return cast(BoxDetector, detector)


_LEAST_OVERLAP = 0.3
_LOST_FRAMES = 10  # after so many frames without a box a track ends


def tracked(found: Boxes) -> Boxes:
    """The boxes with ids from 1, in the order of their frames; earlier ids are overwritten."""
    found = found.chosen(np.argsort(found.frame, kind="stable"))
    ids = np.full(len(found), NO_ID)
    last: dict[int, int] = {}  # of each live track, the row of its latest box
    taken = 0
    for frame in np.unique(found.frame):
        rows = np.flatnonzero(found.frame == frame)
        last = {i: row for i, row in last.items() if frame - found.frame[row] <= _LOST_FRAMES}
        before = np.array(list(last.values()), np.int64)
        apart = 1 - overlap(found.box[before], found.box[rows])
        apart[found.label[before][:, None] != found.label[rows][None]] = np.inf
        for track, column in zip(*pairs(apart, 1 - _LEAST_OVERLAP), strict=True):
            ids[rows[column]] = list(last)[track]
        for row in rows:
            if ids[row] == NO_ID:
                taken += 1
                ids[row] = taken
            last[int(ids[row])] = int(row)
    return replace(found, id=ids)


def look(detector: BoxDetector, frames: Sequence[Picture]) -> SeenClip:
    """What a detector finds in RGB uint8 (H, W, 3), followed."""
    return with_tracks(as_seen(detector(frames)), frames)


def with_tracks(seen: SeenClip, frames: Sequence[Picture]) -> SeenClip:
    """The same, followed, with ids from 1, where it has none; what is ignored begins nothing."""
    if len(seen.boxes) == 0 or not (seen.boxes.id == NO_ID).any():
        return seen
    turn = iter([_detections(seen.boxes, number) for number in range(len(frames))])
    height, width = frames[0].shape[:2]
    # At a frame a second it looks at each.
    following = SourceFollowing((width, height), 1.0, lambda *_: next(turn), moving=False)
    return seen._replace(boxes=followed(frames, following))


def followed(frames: Sequence[Picture], following: SourceFollowing) -> Boxes:
    """What is followed through the frames, RGB uint8 (H, W, 3), of one clip."""
    size = frames[0].shape[1], frames[0].shape[0]
    is_cut = CutDetector()
    drafts: list[Draft] = []
    for number, picture in enumerate(frames):
        drafts += following.push(picture, 1, is_cut=is_cut(picture) and number > 0)
    drafts += following.flush()
    shown = [(draft.frame, *one) for draft in drafts for one in draft.shown(size)]
    return make_boxes(
        [frame for frame, _, _ in shown],
        [box for _, _, box in shown],
        label=[track.kind for _, track, _ in shown],
        id=[track.number for _, track, _ in shown],
        score=[track.score for _, track, _ in shown],
    )


def _detections(boxes: Boxes, frame: int) -> list[Detection]:
    return [
        Detection(
            str(boxes.label[row]),
            boxes.box[row],
            float(boxes.score[row]),
            begins=not boxes.ignored[row],
        )
        for row in np.flatnonzero(boxes.frame == frame)
    ]
