"""COCO's average precision of boxes, by pycocotools.

T.-Y. Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014;
https://cocodataset.org/#detection-eval.
"""

import contextlib
import io
from typing import Any, NamedTuple

import numpy as np

from gsvc.datasets.annotated.boxes import Boxes
from gsvc.eval.analysis.pairing import NEEDED
from gsvc.eval.optional import optional


class AveragePrecision(NamedTuple):
    """0 to 1, higher is better, the mean over the classes of the truth."""

    at_half: float
    """Of boxes that overlap by half: mAP@.5."""
    mean: float
    """The mean over overlaps from .5 to .95: mAP@.5:.95."""


def average_precision(truth: Boxes, found: Boxes) -> AveragePrecision | None:
    """Of what was found, in the order of its scores; ids do not matter.

    None without truth that counts. Raises MissingDependencyError without pycocotools.
    """
    with optional(f"average precision {NEEDED}"):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    if truth.ignored.all():
        return None
    classes = {label: number for number, label in enumerate(np.unique(truth.label), 1)}
    found = found.chosen(np.isin(found.label, list(classes)))
    frames = np.unique(np.concatenate([truth.frame, found.frame])).tolist()
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints what it does
        sets = []
        for boxes in (truth, found):
            sets.append(COCO())
            sets[-1].dataset = _dataset(boxes, classes, frames)
            sets[-1].createIndex()
        judge = COCOeval(*sets, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return AveragePrecision(float(judge.stats[1]), float(judge.stats[0]))


def _dataset(boxes: Boxes, classes: dict[str, int], frames: list[int]) -> dict[str, Any]:
    sizes = boxes.box[:, 2:] - boxes.box[:, :2]
    corners = np.hstack([boxes.box[:, :2], sizes]).tolist()
    return {
        "images": [{"id": frame} for frame in frames],
        "categories": [{"id": number, "name": name} for name, number in classes.items()],
        "annotations": [
            {
                "id": row + 1,
                "image_id": int(boxes.frame[row]),
                "category_id": classes[boxes.label[row]],
                "bbox": corner,
                "area": corner[2] * corner[3],
                "score": float(boxes.score[row]),
                "iscrowd": int(boxes.ignored[row]),
            }
            for row, corner in enumerate(corners)
        ],
    }
