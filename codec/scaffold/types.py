"""The scaffold: what is sent of the frames between key pictures. Integers only, so it is exact everywhere.

Geometry follows from the display size alone (`Geometry`). A unit of motion is 1/8 of a cell, which is one
pixel at 288 lines; a unit of pose is 1/4 of a cell.
"""

from dataclasses import dataclass, replace
from enum import Enum
from math import ceil

import numpy as np
from numpy.typing import NDArray

BACKGROUND, PERSON = 0, 1
MAX_LABEL = 7
"""Labels of a segmentation: 0 background, 1 person, 2-7 regions that move on their own."""

POINTS = 17
"""Key points of a person, in the order of COCO (nose, eyes, ears, shoulders, elbows, wrists, hips, knees,
ankles; left before right)."""

BOTH, LEFT, RIGHT = 0, 1, 2
"""Which key picture a block of motion is drawn from."""


@dataclass(frozen=True)
class Geometry:
    """Grids over a picture of `width` x `height` pixels."""

    width: int
    height: int

    @property
    def cell(self) -> int:
        """Side of a segmentation cell in pixels: 8 at 288 lines."""
        return max(8, round(min(self.width, self.height) / 36))

    @property
    def label_shape(self) -> tuple[int, int]:
        """(rows, columns) of a segmentation."""
        return ceil(self.height / self.cell), ceil(self.width / self.cell)

    def block_shape(self, block_log2: int) -> tuple[int, int]:
        """(rows, columns) of a grid of blocks, each 2^block_log2 cells wide."""
        side = self.cell << block_log2
        return ceil(self.height / side), ceil(self.width / side)

    def coded_size(self, eighths: int) -> tuple[int, int]:
        """(width, height) of key pictures sent at `eighths` of the display size, rounded up to even."""
        return 2 * ceil(self.width * eighths / 16), 2 * ceil(self.height * eighths / 16)

    @property
    def motion_unit(self) -> float:
        """Pixels in one unit of motion."""
        return self.cell / 8

    @property
    def camera_unit(self) -> float:
        """Pixels in one unit of the camera's path: a quarter of a unit of motion."""
        return self.cell / 32

    @property
    def pose_unit(self) -> float:
        """Pixels in one unit of pose."""
        return self.cell / 4


@dataclass(frozen=True)
class Person:
    """One person at one time.

    `points`: int16 (17, 2), x and y in pose units; `visible`: bool (17,); points that are not visible are 0.
    `identity` (0-15) stays with a person over time. `moves_picture` says that the limbs' motion since the
    last sample is worth applying to the picture.
    """

    identity: int
    points: NDArray[np.int16]
    visible: NDArray[np.bool_]
    moves_picture: bool = False


@dataclass(frozen=True)
class Correction:
    """Corrections to the decoder-side motion at one time (an anchor).

    `sides`: uint8 (rows, columns), BOTH, LEFT or RIGHT: the key picture to draw the block from.
    `vectors`: int16 (rows, columns, 2), x and y in motion units, added to the motion towards the key pictures.
    The grid has blocks of 2^block_log2 cells. All zero means: the decoder's own estimate is right.
    """

    block_log2: int
    sides: NDArray[np.uint8]
    vectors: NDArray[np.int16]


@dataclass(frozen=True)
class Sample:
    """The scaffold at one frame: `offset` frames after the key picture before it.

    `labels`: uint8 `Geometry.label_shape`, or None when segmentation is off; `layers`: int16 (8, 2), motion
    correction of each label, x and y in motion units; `people` is None when pose is off; `correction` is
    None when flow is off or nothing is corrected here.
    """

    offset: int
    labels: NDArray[np.uint8] | None = None
    layers: NDArray[np.int16] | None = None
    people: tuple[Person, ...] | None = None
    correction: Correction | None = None


@dataclass(frozen=True)
class Texture:
    """How much of a key picture's detail is raised.

    `gains`: uint8 `Geometry.block_shape(block_log2)`, 0-7, in units of a quarter of the detail.
    """

    block_log2: int
    gains: NDArray[np.uint8]


@dataclass(frozen=True)
class Camera:
    """The path of the camera over an interval, at nodes 2^step_log2 frames apart; linear in time between them.

    `corners`: int16 (nodes, 3, 2), x and y in camera units: how far the top left, top right and bottom left corner of
    a frame at the node lie from their place in the key picture, where the frame is held; from where even
    motion from one key picture to the other would take them, where it lies between two. At key pictures all are 0.
    """

    step_log2: int
    corners: NDArray[np.int16]


class Place(Enum):
    """Where the frames of an interval lie."""

    BETWEEN = 0
    """Between two key pictures, drawn from both."""
    BEFORE = 1
    """Before the first key picture of a scene, which they hold."""
    AFTER = 2
    """After the last key picture of a scene, which they hold; their packet has no picture."""


@dataclass(frozen=True)
class Interval:
    """The frames that a packet carries: those after one key picture up to and including the next.

    `ticks`: for each frame, in order, its distance in time from the frame before in units of the time base.
    `samples` are in order of `offset`; the last may lie on the key picture itself.
    `texture` is that of the key picture that ends it, None when texture is off or nothing is raised.
    `camera`: None when that layer is off or the camera moves evenly. `dissolves`: frames BETWEEN are both key
    pictures, unmoved, the one fading into the other. Where `place` is AFTER there is no key
    picture: all frames are held, and samples and texture are empty.
    """

    ticks: tuple[int, ...]
    samples: tuple[Sample, ...] = ()
    texture: Texture | None = None
    camera: Camera | None = None
    place: Place = Place.BETWEEN
    dissolves: bool = False

    @property
    def length(self) -> int:
        """Number of frames, the key picture included."""
        return len(self.ticks)

    @property
    def closing_sample(self) -> Sample | None:
        """The sample on the key picture, seen from the next interval (offset 0); None if there is none."""
        if self.samples and self.samples[-1].offset == self.length:
            return replace(self.samples[-1], offset=0)
        return None


def camera_nodes(place: Place, length: int, step_log2: int) -> list[int]:
    """Times of the nodes of a camera's path: frames after the key picture before the interval (BETWEEN, AFTER) or
    back from the one that ends it (BEFORE). Held frames never lie beyond the last node."""
    step = 1 << step_log2
    if place is Place.BETWEEN:
        return list(range(step, length, step))
    farthest = length if place is Place.AFTER else length - 1
    return list(range(step, farthest + step, step))
