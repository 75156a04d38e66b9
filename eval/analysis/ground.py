"""From boxes in several cameras to places on the ground that they share."""

from collections.abc import Sequence

import numpy as np

from gsvc.datasets.annotated.boxes import NO_ID, Boxes, Floats, Places, make_places
from gsvc.eval.analysis.pairing import pairs

APART = 0.75
"""Metres within which places that two cameras see are one."""
_MARGIN = 2.0
"""Pixels: a box that ends so near the picture's lower edge hides its feet."""


def standing(boxes: Boxes, homographies: Floats, height: int) -> Places:
    """Where things stand whose boxes a camera sees: under the middle of the lower edge.

    `homographies`: for each frame from (x, y, 1) in metres to pixels, float64 (frames, 3, 3);
    `height`: of the picture, in pixels. Boxes cut off below, and boxes above the horizon, have no
    place.
    """
    boxes = boxes.chosen(boxes.box[:, 3] < height - _MARGIN)
    middle = (boxes.box[:, 0] + boxes.box[:, 2]) / 2
    feet = np.stack([middle, boxes.box[:, 3], np.ones(len(boxes))], axis=-1)
    ground = np.einsum("nij,nj->ni", np.linalg.inv(homographies[boxes.frame]), feet)
    # Depth: of the point found, in the camera; below 0 beyond the horizon.
    ahead = ground[:, 2] > 0
    places = ground[ahead, :2] / ground[ahead, 2:]
    return make_places(boxes.frame[ahead], places, boxes.id[ahead])


def merged(views: Sequence[Places], apart: float = APART) -> Places:
    """What several cameras see as one list: places of different cameras that are near, averaged.

    `apart`: metres. Identities are left out. Raises MissingDependencyError without scipy.
    """
    last = max((view.frame.max(initial=-1) for view in views), default=-1)
    frames: list[int] = []
    places: list[Floats] = []
    for frame in range(last + 1):
        found = _one_frame([view.place[view.frame == frame] for view in views], apart)
        frames += [frame] * len(found)
        places.append(found)
    joined = np.concatenate([np.empty((0, 2)), *places])
    return make_places(frames, joined, np.full(len(frames), NO_ID))


def _one_frame(views: Sequence[Floats], apart: float) -> Floats:
    sums, counts = np.empty((0, 2)), np.empty(0)
    for places in views:
        means = sums / counts[:, None]
        distance = np.linalg.norm(means[:, None] - places[None], axis=-1)
        old, new = pairs(distance, apart)
        sums[old] += places[new]
        counts[old] += 1
        others = np.delete(places, new, axis=0)
        sums, counts = np.concatenate([sums, others]), np.append(counts, np.ones(len(others)))
    return np.asarray(sums / counts[:, None])
