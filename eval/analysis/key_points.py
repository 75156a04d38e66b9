"""Average precision of people's key points by object key point similarity (OKS).

COCO's: M. Ronchi, P. Perona, "Benchmarking and Error Diagnosis in Multi-Instance Pose Estimation",
ICCV 2017; by pycocotools.
"""

import contextlib
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc.eval.analysis.pairing import NEEDED
from gsvc.eval.optional import optional


class Pose(NamedTuple):
    """One person in one frame."""

    frame: int
    points: NDArray[np.float64]
    """x, y in pixels, float64 (17, 2), in COCO's order."""
    visible: NDArray[np.bool_]
    """(17,)."""
    score: float = 1.0


class PoseScores(NamedTuple):
    """0 to 1, higher is better."""

    at_half: float
    """Of poses whose similarity is at least .5."""
    mean: float
    """OKS-AP: the mean over similarities from .5 to .95."""


def oks_ap(truth: Sequence[Pose], found: Sequence[Pose]) -> PoseScores | None:
    """Of what was found, in the order of its scores.

    The area of a person, which the similarity is relative to, is that of the box around the points.
    None without truth that shows a point. Raises MissingDependencyError without pycocotools.
    """
    with optional(f"average precision {NEEDED}"):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    if not any(one.visible.any() for one in truth):
        return None
    frames = sorted({one.frame for one in (*truth, *found)})
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints what it does
        sets = []
        for poses in (truth, found):
            sets.append(COCO())
            sets[-1].dataset = _dataset(poses, frames)
            sets[-1].createIndex()
        judge = COCOeval(*sets, "keypoints")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return PoseScores(float(judge.stats[1]), float(judge.stats[0]))


def _dataset(poses: Sequence[Pose], frames: Sequence[int]) -> dict[str, Any]:
    return {
        "images": [{"id": frame} for frame in frames],
        "categories": [{"id": 1, "name": "person"}],
        "annotations": [_entry(number, one) for number, one in enumerate(poses, 1)],
    }


def _entry(number: int, one: Pose) -> dict[str, Any]:
    shown = one.points[one.visible] if one.visible.any() else one.points
    low, size = shown.min(axis=0), np.ptp(shown, axis=0)
    flags = np.where(one.visible, 2, 0)
    return {
        "id": number,
        "image_id": one.frame,
        "category_id": 1,
        "keypoints": np.column_stack([one.points, flags]).ravel().tolist(),
        "num_keypoints": int(one.visible.sum()),
        "bbox": [*low.tolist(), *size.tolist()],
        "area": float(np.prod(size)),
        "score": one.score,
        "iscrowd": 0,
    }
