"""Segmentation: people, found by a network, and regions that move against the camera.

Network: MobileNetV3 encoder-decoder, "MediaPipe Selfie Segmentation" model card (Google, 2021), for
people within about two metres. It finds distant people weakly or not at all, and in pictures
without people it marks what stands out: 15 % of pixels (120 photographs, animals and monuments).
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.pose import POSE, People
from gsvc.codec.bitstream.layers.segmentation import MAX_LABEL, PERSON, SEGMENTATION, Segmentation
from gsvc.codec.bitstream.scaffold import Geometry, Sample
from gsvc.decoders.detection.people import LiteRtModel
from gsvc.decoders.interpolation.optical_flow import Flow
from gsvc.encoders.scaffold.extractor import AnchorProbe, Extractor, source_motion, to_motion_units
from gsvc.encoders.tuning import Level


class PersonSegmenter:
    """Called with a picture, gives each pixel's probability to be part of a person. Raises
    MissingModelError without its models."""

    def __init__(self) -> None:
        self._square = LiteRtModel("selfie_segmentation")
        self._landscape = LiteRtModel("selfie_segmentation_landscape")

    def __call__(self, picture: Picture) -> NDArray[np.float32]:
        """Segment RGB uint8 (H, W, 3) of any size; gives float32 (H, W) in [0, 1]."""
        height, width = picture.shape[:2]
        # The network whose input shape distorts the picture less.
        network = self._landscape if 9 * width**2 > 16 * height**2 else self._square
        rows, columns = network.input_shape[1:3]
        shrinks = height * width > rows * columns
        small = cv2.resize(
            picture, (columns, rows), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        )
        values = small.astype(np.float32)[np.newaxis] / np.float32(255)
        mask = cv2.resize(
            network(values)[0][0, :, :, 0], (width, height), interpolation=cv2.INTER_LINEAR
        )
        return np.asarray(np.clip(mask, 0.0, 1.0), np.float32)


_SURE = 0.5
_WAVER = 0.2
"""How far beyond `_SURE` the mask must go to change a cell: noise at its edge would cost bits."""
_LEAST_CELLS = 12
_MAX_REGIONS = 3
_MOVES_APART = 1.5
"""Motion units against the camera's motion from which a cell moves on its own."""


Labels = NDArray[np.uint8]
"""`Geometry.label_shape`, 0 to `MAX_LABEL`."""


class SegmentationExtractor(Extractor):
    """The labels of each sample; a region keeps its label from frame to frame. Raises
    MissingModelError without its model."""

    layer, has_memory = SEGMENTATION, True

    def __init__(self, geometry: Geometry, level: Level) -> None:
        super().__init__(geometry, level)
        self._mask = PersonSegmenter()
        self._seen: Labels | None = None
        self._sent: Segmentation | None = None

    def observe(
        self, sources: Sequence[Picture], samples: list[Sample], *, semantics: bool
    ) -> list[Sample]:
        """The labels of a scene's first picture, else in the middle: later, the same cost none."""
        begins = len(sources) == 1
        if begins:
            self._seen = None  # Without motion there are no regions either.
        if begins or len(samples) > 1:
            labels = np.zeros(self._geometry.label_shape, np.uint8)
            if semantics:
                self._label(labels, sources, samples[0])
            self._sent = Segmentation.still(labels)
        return [sample.having(SEGMENTATION, self._sent) for sample in samples]

    def settle(self, probe: AnchorProbe, samples: list[Sample]) -> list[Sample]:
        """Keep the regions that move apart only if moving them pays for their outlines too."""
        value = probe.anchor[SEGMENTATION]
        if value is None or not (value.labels > PERSON).any():
            return samples
        people = np.where(value.labels == PERSON, PERSON, 0).astype(np.uint8)
        moved = Segmentation(value.labels, self._missing(probe, probe.anchor, value.labels))
        plain = probe.anchor.having(SEGMENTATION, Segmentation(people, value.vectors))
        stays = probe.better(plain, probe.anchor.having(SEGMENTATION, moved)) is plain
        self._seen = people if stays else value.labels
        self._sent = Segmentation.still(self._seen)
        return [sample.having(SEGMENTATION, self._sent) for sample in samples]

    def improve(self, probe: AnchorProbe, anchor: Sample) -> Sample:
        """The motion of each label, if it pays."""
        value = anchor[SEGMENTATION]
        if value is None:
            return anchor
        found = self._missing(probe, anchor, value.labels)
        for label in np.flatnonzero(found.any(1)).tolist():
            vectors = value.vectors.copy()
            vectors[label] = found[label]
            moved = Segmentation(value.labels, vectors)
            better = probe.better(anchor, anchor.having(SEGMENTATION, moved))
            if better is not anchor:
                anchor, value = better, moved
        return anchor

    def says_something(self, sample: Sample) -> bool:
        """Whether anything but background is there, or moves."""
        value = sample[SEGMENTATION]
        return value is not None and bool(value.labels.any() or value.vectors.any())

    def _missing(self, probe: AnchorProbe, anchor: Sample, labels: Labels) -> NDArray[np.int16]:
        """Median in each label of what both motions miss alike, int16 (8, 2) motion units."""
        left, right = probe.missing(anchor)
        missing = (left + right) / np.float32(2)
        geometry, vectors = self._geometry, np.zeros((MAX_LABEL + 1, 2), np.int16)
        large = labels.repeat(geometry.cell, 0).repeat(geometry.cell, 1)
        large = large[: geometry.height, : geometry.width]
        for label in np.unique(labels).tolist():
            vectors[label] = to_motion_units(np.median(missing[large == label], axis=0), geometry)
        return vectors

    def _label(self, labels: Labels, sources: Sequence[Picture], sample: Sample) -> None:
        picture, people = sources[sample.offset], sample[POSE]
        if len(sources) > 1:
            to_left, to_right = source_motion(picture, (sources[0], sources[-1]))
            self._add_regions(labels, to_right - to_left)
        if people is None or people:
            labels[self._person(picture, people)] = PERSON
        self._seen = labels

    def _person(self, picture: Picture, people: People | None) -> NDArray[np.bool_]:
        """The cells of the people in a picture; `people` (None: pose is off) confirm the mask,
        which marks statues and dogs too."""
        threshold = np.full(self._geometry.label_shape, _SURE, np.float32)
        if self._seen is not None:
            threshold += np.where(self._seen == PERSON, -_WAVER, _WAVER)
        cells = _cell_mean(self._mask(picture), self._geometry) > threshold
        smooth = cv2.medianBlur(cells.astype(np.uint8), 3)
        count, parts = cv2.connectedComponents(smooth, connectivity=4)
        keep = np.full(count, people is None)
        for person in people or ():
            points = person.points[person.visible] // 4
            inside = ((points >= 0) & (points < np.array(parts.shape)[::-1])).all(1)
            for x, y in points[inside]:
                keep[parts[y, x]] = True
        keep[0] = False
        sizes = np.bincount(parts.ravel(), minlength=count)
        return np.asarray((keep & (sizes >= _LEAST_CELLS))[parts], np.bool_)

    def _add_regions(self, labels: Labels, motion: Flow) -> None:
        """Label what moves apart; `motion`: over the whole interval at this frame."""
        geometry = self._geometry
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
        if self._seen is not None:
            votes = np.bincount(self._seen[inside], minlength=MAX_LABEL + 1)
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
