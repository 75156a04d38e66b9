"""Identities for a detector's boxes, by overlap from frame to frame.

E. Bochinski, V. Eiselein, T. Sikora, "High-Speed Tracking-by-Detection Without Using Image
Information", AVSS 2017; here a track also outlives a few frames without a box.
"""

from dataclasses import replace

import numpy as np

from gsvc.datasets.annotated.boxes import NO_ID, Boxes, overlaps
from gsvc.eval.analysis.pairing import pairs

_LEAST_OVERLAP = 0.3
_LOST_FRAMES = 10
"""After so many frames without a box a track ends."""


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
        apart = 1 - overlaps(found.box[before], found.box[rows])
        apart[found.label[before][:, None] != found.label[rows][None]] = np.inf
        for track, column in zip(*pairs(apart, 1 - _LEAST_OVERLAP), strict=True):
            ids[rows[column]] = list(last)[track]
        for row in rows:
            if ids[row] == NO_ID:
                taken += 1
                ids[row] = taken
            last[int(ids[row])] = int(row)
    return replace(found, id=ids)
