"""The motion of limbs, from key points: how far it deviates from motion linear in time."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.pose import POSE, Person, pose_unit
from gsvc.codec.scaffold.types import Sample

_LIMBS = (
    (5, 7), (7, 9), (6, 8), (8, 10), (5, 6), (5, 11), (6, 12), (11, 12),
    (11, 13), (13, 15), (12, 14), (14, 16), (0, 5), (0, 6),
)  # fmt: skip
"""Pairs of COCO key points that are joined by a limb."""

_THICKNESS = 2.0  # of a limb, in cells


def limb_motion(
    anchor: Sample, samples: Sequence[Sample], length: int, geometry: Geometry
) -> NDArray[np.float32]:
    """Correction of motion at `anchor` from pose: float32 (H, W, 2) in pixels.

    It is the vector by which a key point, visible at the anchor and at both coded pictures,
    deviates from motion linear in time. It is interpolated along limbs and falls to 0 beside them.
    """
    small = np.zeros((*geometry.label_shape, 2), np.float32)
    starts = next((s for s in samples if s.offset <= 0), None)
    ends = next((s for s in samples if s.offset == length), None)
    for person in anchor[POSE] or () if starts and ends else ():
        assert starts is not None and ends is not None
        start, end = _find(starts, person), _find(ends, person)
        if person.moves_picture and start is not None and end is not None:
            small += _one_person(person, start, end, anchor.offset / length, geometry)
    rows, columns = geometry.label_shape
    size = columns * geometry.cell, rows * geometry.cell
    large = cv2.resize(small, size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(large[: geometry.height, : geometry.width], np.float32)


def _one_person(
    person: Person, start: Person, end: Person, time: float, geometry: Geometry
) -> NDArray[np.float32]:
    straight = (1 - time) * start.points + time * end.points
    # Motion points from the frame to the coded pictures, hence the sign.
    bend = (straight - person.points) * pose_unit(geometry)
    seen = person.visible & start.visible & end.visible
    rows, columns = geometry.label_shape
    weighted = np.zeros((rows, columns, 2), np.float32)
    weight = np.zeros((rows, columns), np.float32)
    x, y = np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
    for a, b in _LIMBS:
        if not (seen[a] and seen[b]):
            continue
        (ax, ay), (bx, by) = person.points[a] / 4, person.points[b] / 4
        span = max((bx - ax) ** 2 + (by - ay) ** 2, 1e-6)
        along = np.clip(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / span, 0, 1)
        distance2 = (x - ax - along * (bx - ax)) ** 2 + (y - ay - along * (by - ay)) ** 2
        near = np.exp(-distance2 / (2 * _THICKNESS**2 / 4)).astype(np.float32)
        weighted += near[..., None] * (
            (1 - along)[..., None] * bend[a] + along[..., None] * bend[b]
        )
        weight += near
    return np.asarray(weighted / np.maximum(weight, 1)[..., None], np.float32)


def _find(sample: Sample, person: Person) -> Person | None:
    return next((p for p in sample[POSE] or () if p.identity == person.identity), None)
