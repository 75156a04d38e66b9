"""Accuracies of what was found, against truth, with the field's own tools where there are any.

Boxes and key points: COCO's average precision, by pycocotools. Tracks: MOTA and IDF1, by
py-motmetrics. Places: MODA, of boxes and on the ground. Events: F1 by their overlap in time.
"""

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.datasets.annotated.truth import NO_ID, Boxes, Ints, Places, Rows
from gsvc.decoders.detection import findings
from gsvc.eval.late_loading import optional

NEEDED = "needs more packages: pip install 'gsvc[analysis]'"
LEAST_OVERLAP = 0.5
"""Intersection over union from which on a box counts as found."""


def pairs(distance: NDArray[np.float64], most: float) -> tuple[Ints, Ints]:
    """Rows and columns of the assignment of the most pairs that are at most `most` apart.

    Among those, the one of the least sum (H. W. Kuhn, "The Hungarian Method", 1955). `distance`:
    float64 (n, m). Raises MissingDependencyError without scipy.
    """
    with optional(f"pairing {NEEDED}"):
        from scipy.optimize import linear_sum_assignment
    if not distance.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near = distance <= most
    far = 1 + min(distance.shape) * (1 + max(most, 0))  # one pair more outweighs any distances
    rows, columns = linear_sum_assignment(np.where(near, distance, far))
    kept = near[rows, columns]
    return np.asarray(rows[kept], np.int64), np.asarray(columns[kept], np.int64)


def without_ignored(truth: Boxes, found: Boxes) -> tuple[Boxes, Boxes]:
    """Truth that counts, and what was found less what lies on ignored truth alone.

    As the MOTChallenge treats distractors (Milan et al. 2016, section 4.1.2).
    """
    counts = truth.chosen(~truth.ignored)
    if len(counts) == len(truth):
        return truth, found
    kept = np.ones(len(found), bool)
    for frame in np.unique(truth.frame[truth.ignored]):
        rows = np.flatnonzero(found.frame == frame)
        on_ignored = _most(found.box[rows], truth.chosen(truth.ignored), frame)
        on_counted = _most(found.box[rows], counts, frame)
        kept[rows] = (on_ignored < LEAST_OVERLAP) | (on_counted >= LEAST_OVERLAP)
    return counts, found.chosen(kept)


def _most(boxes: NDArray[np.float64], others: Boxes, frame: int) -> NDArray[np.float64]:
    """Greatest overlap of each box with others of a frame."""
    there = findings.overlap(boxes, others.box[others.frame == frame])
    return np.asarray(there.max(axis=1, initial=0.0))


class AveragePrecision(NamedTuple):
    """0 to 1, higher is better, the mean over the classes of the truth."""

    at_half: float
    """Of boxes that overlap, or poses that are similar, by half: mAP@.5."""
    mean: float
    """The mean over overlaps from .5 to .95: mAP@.5:.95, OKS-AP."""


def average_precision(truth: Boxes, found: Boxes) -> AveragePrecision | None:
    """Of what was found, in the order of its scores; ids do not matter.

    None without truth that counts. Raises MissingDependencyError without pycocotools.
    """
    if truth.ignored.all():
        return None
    classes = {label: number for number, label in enumerate(np.unique(truth.label), 1)}
    found = found.chosen(np.isin(found.label, list(classes)))
    frames = np.unique(np.concatenate([truth.frame, found.frame])).tolist()
    entries = [_box_entries(boxes, classes) for boxes in (truth, found)]
    return _evaluated("bbox", classes, frames, *entries)


def _box_entries(boxes: Boxes, classes: Mapping[str, int]) -> list[dict[str, Any]]:
    corners = np.hstack([boxes.box[:, :2], boxes.box[:, 2:] - boxes.box[:, :2]]).tolist()
    return [
        {
            "image_id": int(boxes.frame[row]),
            "category_id": classes[boxes.label[row]],
            "bbox": corner,
            "area": corner[2] * corner[3],
            "score": float(boxes.score[row]),
            "iscrowd": int(boxes.ignored[row]),
        }
        for row, corner in enumerate(corners)
    ]


def _evaluated(
    kind: str, classes: Mapping[str, int], frames: Sequence[int], *entries: list[dict[str, Any]]
) -> AveragePrecision:
    """COCOeval of `kind` on annotations: those of the truth, then those found."""
    with optional(f"average precision {NEEDED}"):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    images = [{"id": frame} for frame in frames]
    categories = [{"id": number, "name": name} for name, number in classes.items()]
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints what it does
        sets = []
        for rows in entries:
            annotations = [{"id": number, **row} for number, row in enumerate(rows, 1)]
            sets.append(COCO())
            sets[-1].dataset = {
                "images": images,
                "categories": categories,
                "annotations": annotations,
            }
            sets[-1].createIndex()
        judge = COCOeval(*sets, kind)
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return AveragePrecision(float(judge.stats[1]), float(judge.stats[0]))


class Pose(NamedTuple):
    """One person in one frame."""

    frame: int
    points: NDArray[np.float64]
    """x, y in pixels, float64 (17, 2), in COCO's order."""
    visible: NDArray[np.bool_]
    """(17,)."""
    score: float = 1.0


def oks_ap(truth: Sequence[Pose], found: Sequence[Pose]) -> AveragePrecision | None:
    """Of what was found, in the order of its scores.

    The area of a person, which the similarity is relative to, is that of the box around the points.
    None without truth that shows a point. Raises MissingDependencyError without pycocotools.
    """
    if not any(one.visible.any() for one in truth):
        return None
    frames = sorted({one.frame for one in (*truth, *found)})
    entries = [[_pose_entry(one) for one in poses] for poses in (truth, found)]
    return _evaluated("keypoints", {"person": 1}, frames, *entries)


def _pose_entry(one: Pose) -> dict[str, Any]:
    shown = one.points[one.visible] if one.visible.any() else one.points
    low, size = shown.min(axis=0), np.ptp(shown, axis=0)
    return {
        "image_id": one.frame,
        "category_id": 1,
        "keypoints": np.column_stack([one.points, np.where(one.visible, 2, 0)]).ravel().tolist(),
        "num_keypoints": int(one.visible.sum()),
        "bbox": [*low.tolist(), *size.tolist()],
        "area": float(np.prod(size)),
        "score": one.score,
        "iscrowd": 0,
    }


class TimedEvent(NamedTuple):
    """Something that happens."""

    name: str
    """Which; events of different names never match."""
    start: float
    """Seconds."""
    end: float
    """Seconds; an instant ends when it starts."""


_TOLERANCE = 1.0  # seconds by which events are taken to be longer, half of it at each end


def event_f1(truth: Sequence[TimedEvent], found: Sequence[TimedEvent]) -> float | None:
    """F1, 0 to 1, of events that match one to one.

    Two match when they share half of the time that either takes. None without truth and without
    events found. Raises MissingDependencyError without scipy.
    """
    if not truth and not found:
        return None
    shared = np.full((len(truth), len(found)), -1.0)  # intersection over union in time
    for row, one in enumerate(truth):
        for column, other in enumerate(found):
            if one.name == other.name:
                common = min(one.end, other.end) - max(one.start, other.start) + _TOLERANCE
                whole = max(one.end, other.end) - min(one.start, other.start) + _TOLERANCE
                shared[row, column] = max(0.0, common) / whole
    return 2 * len(pairs(1 - shared, 1 - LEAST_OVERLAP)[0]) / (len(truth) + len(found))


RADIUS = 0.5
"""Metres within which a place is found."""

_Rows = TypeVar("_Rows", bound=Rows)


def ground_moda(truth: Places, found: Places) -> float | None:
    """1 less misses and false places for each true one: 1 at best, below 0 at worst.

    None without truth. Raises MissingDependencyError without scipy.
    """
    right = 0
    for ours, theirs in _by_frame(truth, found):
        apart = np.linalg.norm(ours.place[:, None] - theirs.place[None], axis=-1)
        right += len(pairs(apart, RADIUS)[0])
    return _moda(right, truth, found)


def box_moda(truth: Boxes, found: Boxes) -> float | None:
    """The same of boxes of a class that overlap by half. See `ground_moda`."""
    truth, found = without_ignored(truth, found)
    right = 0
    for ours, theirs in _by_frame(truth, found):
        same = ours.label[:, None] == theirs.label[None]
        apart = np.where(same, 1 - findings.overlap(ours.box, theirs.box), np.inf)
        right += len(pairs(apart, 1 - LEAST_OVERLAP)[0])
    return _moda(right, truth, found)


def _by_frame(truth: _Rows, found: _Rows) -> Iterator[tuple[_Rows, _Rows]]:
    for frame in np.unique(truth.frame):
        yield truth.chosen(truth.frame == frame), found.chosen(found.frame == frame)


def _moda(right: int, truth: Rows, found: Rows) -> float | None:
    return 1 - (len(truth) + len(found) - 2 * right) / len(truth) if len(truth) else None


class TrackScores(NamedTuple):
    """Higher is better."""

    mota: float
    """1 less misses, false boxes and switches of identity for each true box; may be below 0."""
    idf1: float
    """F1 of boxes that bear the right identity, 0 to 1."""


def track_scores(truth: Boxes, found: Boxes) -> TrackScores | None:
    """Of tracks whose boxes overlap the truth's of the same class by half, frame by frame.

    None if no truth counts. Raises MissingDependencyError, or ConfigError for boxes without ids.
    """
    with optional(f"MOTA and IDF1 {NEEDED}"):
        import motmetrics
    for name, boxes in (("truth", truth), ("found", found)):
        if (boxes.id == NO_ID).any():
            raise ConfigError(f"{name} has boxes without ids: track them first")
    truth, found = without_ignored(truth, found)
    if not len(truth):
        return None
    record = motmetrics.MOTAccumulator()
    for frame in range(1 + max(boxes.frame.max(initial=0) for boxes in (truth, found))):
        here, there = (boxes.chosen(boxes.frame == frame) for boxes in (truth, found))
        distance = 1 - findings.overlap(here.box, there.box)
        same = here.label[:, None] == there.label[None]
        distance[(distance > 1 - LEAST_OVERLAP) | ~same] = np.nan
        record.update(here.id, there.id, distance, frameid=frame)
    scores = motmetrics.metrics.create().compute(record, metrics=["mota", "idf1"])
    return TrackScores(float(scores["mota"].iloc[0]), float(scores["idf1"].iloc[0]))


GROUND, EVENTS, POINTS = "ground_moda", "event_f1", "oks_ap"
ACCURACIES = {
    "map50": "mAP@.5",
    "map": "mAP@.5:.95",
    "moda": "MODA",
    "mota": "MOTA",
    "idf1": "IDF1",
    POINTS: "OKS-AP",
    GROUND: "MODA on the ground",
    EVENTS: "event F1",
}
"""Names and titles; 1 is best, and MODA and MOTA may be below 0."""

LEAST_VISIBILITY = 0.25
"""Truth that shows less of itself is ignored."""


def accuracies(truth: Boxes, found: Boxes) -> Mapping[str, float | None]:
    """All of `ACCURACIES` in one picture; None without truth that counts, or ids where they matter.

    Those of key points, ground and events are None: they need more than boxes. `found` has ids.
    """
    precision = average_precision(truth, found)
    tracks = None if (truth.id == NO_ID).any() else track_scores(truth, found)
    return dict.fromkeys(ACCURACIES) | {
        "map50": precision and precision.at_half,
        "map": precision and precision.mean,
        "moda": box_moda(truth, found),
        "mota": tracks and tracks.mota,
        "idf1": tracks and tracks.idf1,
    }


def judged(boxes: Boxes, labels: frozenset[str] | None) -> Boxes:
    """What counts for a detector of these classes; without classes all things are of one."""
    if labels is None:
        boxes = replace(boxes, label=np.full(len(boxes), "thing"))
    else:
        boxes = boxes.chosen(np.isin(boxes.label, list(labels)))
    return replace(boxes, ignored=boxes.ignored | (boxes.visibility < LEAST_VISIBILITY))
