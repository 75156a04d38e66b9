"""Segmentation: people, found by a network, and regions that move against the camera."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.pose import POSE, Person
from gsvc.codec.scaffold.layers.segmentation import MAX_LABEL, PERSON, SEGMENTATION, Segmentation
from gsvc.codec.scaffold.types import Sample
from gsvc.decoders.motion.estimation import Flow
from gsvc.encoders.anchor_trial import AnchorTrial
from gsvc.encoders.layers.extractor import Observed
from gsvc.encoders.motion import to_motion_units, true_motion
from gsvc.encoders.people.person_mask import PersonSegmenter
from gsvc.encoders.tuning import Level

_SURE = 0.5
_WAVER = 0.2
"""How far beyond `_SURE` the mask must go to change a cell: noise at its edge would cost bits."""
_LEAST_CELLS = 12
_MAX_REGIONS = 3
_MOVES_APART = 1.5
"""Motion units against the camera's motion from which a cell moves on its own."""


class SegmentationExtractor:
    """The labels of each sample; see `Extractor`. Raises MissingModelError without its model."""

    layer, has_memory = SEGMENTATION, True

    def __init__(self, geometry: Geometry, _level: Level) -> None:
        self._segment, self._geometry = Segmenter(), geometry
        self._last: Segmentation | None = None

    def begin_scene(self, picture: Picture, sample: Sample, *, watching: bool) -> Sample:
        """The people of the picture; without motion there are no regions."""
        self._segment.forget()
        return sample.having(SEGMENTATION, self._labels(picture, sample, None, watching))

    def observe(self, sources: Sequence[Picture], found: Observed, *, watching: bool) -> Observed:
        """The labels in the middle; those at the end are the same, which costs no bits."""
        middle = found.middle
        if middle is not None:
            frame, motion = sources[middle.offset], None
            if watching:
                to_left, to_right = true_motion(frame, sources[0], sources[-1])
                motion = to_right - to_left
            middle = middle.having(SEGMENTATION, self._labels(frame, middle, motion, watching))
        return Observed(middle, found.end.having(SEGMENTATION, self._last))

    def settle(self, trial: AnchorTrial, anchor: Sample) -> Segmentation | None:
        """Keep the regions that move apart only if moving them pays for their outlines too."""
        value = anchor[SEGMENTATION]
        if value is None or not (value.labels > PERSON).any():
            return None
        people = np.where(value.labels == PERSON, PERSON, 0).astype(np.uint8)
        vectors = label_vectors(value.labels, trial.missing_average(anchor), self._geometry)
        plain = anchor.having(SEGMENTATION, Segmentation(people, value.vectors))
        moving = anchor.having(SEGMENTATION, Segmentation(value.labels, vectors))
        chosen = people if trial.better(plain, moving) is plain else value.labels
        self._segment.settle(chosen)
        self._last = Segmentation.still(chosen)
        return self._last

    def improve(self, trial: AnchorTrial, anchor: Sample) -> Sample:
        """The motion of each label, if it pays."""
        value = anchor[SEGMENTATION]
        if value is None:
            return anchor
        found = label_vectors(value.labels, trial.missing_average(anchor), self._geometry)
        for label in np.flatnonzero(found.any(1)).tolist():
            value = anchor[SEGMENTATION]
            assert value is not None
            vectors = value.vectors.copy()
            vectors[label] = found[label]
            moved = anchor.having(SEGMENTATION, Segmentation(value.labels, vectors))
            anchor = trial.better(anchor, moved)
        return anchor

    def says_something(self, sample: Sample) -> bool:
        """Whether anything but background is there, or moves."""
        value = sample[SEGMENTATION]
        return value is not None and bool(value.labels.any() or value.vectors.any())

    def _labels(
        self, picture: Picture, sample: Sample, motion: Flow | None, watching: bool
    ) -> Segmentation:
        if watching:
            labels = self._segment(picture, sample[POSE], motion, self._geometry)
            self._last = Segmentation.still(labels)
        else:
            self._last = Segmentation.empty(self._geometry)
        return self._last


def label_vectors(
    labels: NDArray[np.uint8], missing: Flow, geometry: Geometry
) -> NDArray[np.int16]:
    """Median of the missing motion (H, W, 2 pixels) in each label, int16 (8, 2) motion units."""
    vectors = np.zeros((MAX_LABEL + 1, 2), np.int16)
    cell = geometry.cell
    large = labels.repeat(cell, 0).repeat(cell, 1)[: geometry.height, : geometry.width]
    for label in np.unique(labels).tolist():
        vectors[label] = to_motion_units(np.median(missing[large == label], axis=0), geometry)
    return vectors


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

        `people` (None: pose is off) confirm the person mask, which marks statues and dogs too;
        `motion` is the flow over the whole interval at this frame, or None where there is none.
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
