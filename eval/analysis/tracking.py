"""How well tracks follow: MOTA and IDF1, by py-motmetrics.

MOTA: K. Bernardin and R. Stiefelhagen, "Evaluating Multiple Object Tracking Performance: The CLEAR
MOT Metrics", 2008. IDF1: E. Ristani et al., "Performance Measures and a Data Set for Multi-Target,
Multi-Camera Tracking", 2016 (arXiv:1609.01775).
"""

from typing import NamedTuple

import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.datasets.annotated.boxes import NO_ID, Boxes, overlaps
from gsvc.eval.analysis.pairing import LEAST_OVERLAP, NEEDED, without_ignored
from gsvc.eval.optional import optional


class TrackScores(NamedTuple):
    """Higher is better."""

    mota: float
    """1 less misses, false boxes and switches of identity, each for each box of the truth; may be
    below 0."""
    idf1: float
    """F1 of boxes that bear the right identity, 0 to 1."""


def track_scores(truth: Boxes, found: Boxes) -> TrackScores | None:
    """Of tracks whose boxes overlap the truth's of the same class by half, frame by frame.

    None without truth that counts. Raises MissingDependencyError without motmetrics, ConfigError
    for boxes without ids.
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
        distance = 1 - overlaps(here.box, there.box)
        same = here.label[:, None] == there.label[None]
        distance[(distance > 1 - LEAST_OVERLAP) | ~same] = np.nan
        record.update(here.id, there.id, distance, frameid=frame)
    scores = motmetrics.metrics.create().compute(record, metrics=["mota", "idf1"])
    return TrackScores(float(scores["mota"].iloc[0]), float(scores["idf1"].iloc[0]))
