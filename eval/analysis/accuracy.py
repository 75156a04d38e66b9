"""Every accuracy that the benchmark of analysis measures, of boxes against truth."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gsvc.datasets.annotated.boxes import NO_ID, Boxes
from gsvc.eval.analysis.average_precision import average_precision
from gsvc.eval.analysis.occupancy import box_moda
from gsvc.eval.analysis.tracking import track_scores

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

    Those of key points, of the ground and of events are None: they need more than boxes.

    `found` has ids.
    """
    precision = average_precision(truth, found)
    tracks = None if (truth.id == NO_ID).any() else track_scores(truth, found)
    return {
        "map50": precision and precision.at_half,
        "map": precision and precision.mean,
        "moda": box_moda(truth, found),
        "mota": tracks and tracks.mota,
        "idf1": tracks and tracks.idf1,
        POINTS: None,
        GROUND: None,
        EVENTS: None,
    }


def judged(boxes: Boxes, labels: frozenset[str] | None) -> Boxes:
    """What counts for a detector of these classes; without classes all things are of one."""
    if labels is None:
        boxes = replace(boxes, label=np.full(len(boxes), "thing"))
    else:
        boxes = boxes.chosen(np.isin(boxes.label, list(labels)))
    return replace(boxes, ignored=boxes.ignored | (boxes.visibility < LEAST_VISIBILITY))
