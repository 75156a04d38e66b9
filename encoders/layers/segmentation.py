"""Segmentation: people by a network, and regions that move together by their motion against the camera's."""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import MAX_LABEL, PERSON, Geometry, Person
from gsvc.decoders.motion.estimation import Flow
from gsvc.encoders.people.person_mask import PersonSegmenter

_SURE = 0.5
_WAVER = 0.2
"""How far beyond `_SURE` the mask must go to change a cell: its edge trembles, and that costs bits."""
_LEAST_CELLS = 12
_MAX_REGIONS = 3
_MOVES_APART = 1.5
"""Motion units against the camera's motion from which a cell moves on its own."""


class Segmenter:
    """Finds the labels of a frame; keeps a region's label from frame to frame."""

    def __init__(self) -> None:
        self._mask = PersonSegmenter()
        self._last: NDArray[np.uint8] | None = None

    def forget(self) -> None:
        """Begin a new scene."""
        self._last = None

    def settle(self, labels: NDArray[np.uint8]) -> None:
        """Tell what was sent of the last segmentation; the next one follows that."""
        self._last = labels

    def __call__(
        self,
        picture: Picture,
        people: tuple[Person, ...] | None,
        motion: Flow | None,
        geometry: Geometry,
    ) -> NDArray[np.uint8]:
        """Labels uint8 `geometry.label_shape` of `picture`.

        `people` (None: pose is off) confirm the person mask, which marks statues and dogs too; `motion` is the
        flow over the whole interval at this frame, or None where there is none.
        """
        labels = np.zeros(geometry.label_shape, np.uint8)
        if motion is not None:
            self._add_regions(labels, motion, geometry)
        if people is None or people:
            labels[self._person(picture, people, geometry)] = PERSON
        self._last = labels
        return labels

    def _person(
        self, picture: Picture, people: tuple[Person, ...] | None, geometry: Geometry
    ) -> NDArray[np.bool_]:
        threshold = np.full(geometry.label_shape, _SURE, np.float32)
        if self._last is not None:
            threshold += np.where(self._last == PERSON, -_WAVER, _WAVER)
        cells = _cell_mean(self._mask(picture), geometry) > threshold
        smooth = cv2.medianBlur(cells.astype(np.uint8), 3)
        count, parts = cv2.connectedComponents(smooth, connectivity=4)
        keep = np.zeros(count, bool)
        if people is None:
            keep[:] = True
        for person in people or ():
            points = person.points[person.visible] // 4
            inside = ((points >= 0) & (points < np.array(parts.shape)[::-1])).all(1)
            for x, y in points[inside]:
                keep[parts[y, x]] = True
        keep[0] = False
        sizes = np.bincount(parts.ravel(), minlength=count)
        return np.asarray((keep & (sizes >= _LEAST_CELLS))[parts], np.bool_)

    def _add_regions(self, labels: NDArray[np.uint8], motion: Flow, geometry: Geometry) -> None:
        cells = np.dstack([_cell_mean(motion[..., k], geometry) for k in (0, 1)])
        apart = np.linalg.norm(cells - _camera_motion(cells), axis=-1)
        moving = (apart > _MOVES_APART * geometry.motion_unit).astype(np.uint8)
        moving = cv2.morphologyEx(moving, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
        _, parts, stats, _ = cv2.connectedComponentsWithStats(moving, connectivity=4)
        sizes = stats[1:, cv2.CC_STAT_AREA]
        order = [int(p) + 1 for p in np.argsort(-sizes, kind="stable") if sizes[p] >= _LEAST_CELLS]
        free = list(range(PERSON + 1, MAX_LABEL + 1))
        for part in order[:_MAX_REGIONS]:
            inside = parts == part
            label = self._label_before(inside, free)
            free.remove(label)
            labels[inside] = label

    def _label_before(self, inside: NDArray[np.bool_], free: list[int]) -> int:
        """The label that mostly covered this region in the last frame, or the lowest free one."""
        if self._last is not None:
            votes = np.bincount(self._last[inside], minlength=MAX_LABEL + 1)
            best = max(free, key=lambda label: int(votes[label]))
            if votes[best]:
                return best
        return free[0]


def _camera_motion(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Affine motion of most cells (RANSAC), evaluated at every cell."""
    rows, columns = cells.shape[:2]
    x, y = np.meshgrid(np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32))
    here = np.dstack([x, y]).reshape(-1, 2)
    there = here + cells.reshape(-1, 2)
    matrix = None
    if len(here) >= 3:
        cv2.setRNGSeed(0)  # RANSAC draws from OpenCV's global generator: same input, same stream.
        matrix, _ = cv2.estimateAffine2D(here, there, ransacReprojThreshold=1.0)
    if matrix is None:
        return np.full_like(cells, np.median(cells, axis=(0, 1)))
    moved = here @ matrix[:, :2].T + matrix[:, 2]
    return np.asarray((moved - here).reshape(rows, columns, 2), np.float32)


def _cell_mean(values: NDArray[np.float32], geometry: Geometry) -> NDArray[np.float32]:
    rows, columns = geometry.label_shape
    cell = geometry.cell
    pad = rows * cell - values.shape[0], columns * cell - values.shape[1]
    padded = np.pad(values, ((0, pad[0]), (0, pad[1])), mode="edge")
    return np.asarray(padded.reshape(rows, cell, columns, cell).mean((1, 3)), np.float32)
