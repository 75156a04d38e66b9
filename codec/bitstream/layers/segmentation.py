"""Segmentation: a label for each cell, and a motion for each label.

Contexts of a label come from a template of its neighbours, as in JBIG (ITU-T T.82).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import scaffold
from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import ConfigError

BACKGROUND, PERSON = 0, 1
MAX_LABEL = 7
"""Largest label: 0 is background, 1 person, 2 to 7 are regions that move on their own."""

_SAME = Element("labels.same", "segmentation", FLAG)
_LEFT = Element("labels.left", "segmentation", FLAG, contexts=32)
_ABOVE = Element("labels.above", "segmentation", FLAG, contexts=4)
_BEFORE = Element("labels.before", "segmentation", FLAG)
_VALUE = Element("labels.value", "segmentation", UNSIGNED, MAX_LABEL)
_MOVES = Element("layers.moves", "segmentation", FLAG, contexts=2)
_VECTOR = Element("layers.vector", "segmentation", SIGNED, scaffold.MAX_VECTOR, contexts=2)


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The labels of a frame and the motion of each label."""

    labels: NDArray[np.uint8]
    """`Geometry.label_shape`, 0 to `MAX_LABEL`."""
    vectors: NDArray[np.int16]
    """(8, 2): x and y in motion units, added to the motion of each label's cells."""

    @classmethod
    def still(cls, labels: NDArray[np.uint8]) -> "Segmentation":
        """Labels without motion of their own."""
        return cls(labels, np.zeros((MAX_LABEL + 1, 2), np.int16))


def _code(
    coder: Coder, site: scaffold.Site, before: Segmentation | None, value: Segmentation | None
) -> Segmentation:
    if value is None and not coder.reading:
        raise ConfigError("this stream has segmentation: a sample needs labels and their motion")
    past = np.zeros(site.geometry.label_shape, np.uint8) if before is None else before.labels
    if value is not None and value.labels.shape != past.shape:
        why = f"segmentation of shape {value.labels.shape}: this video takes {past.shape}"
        raise ConfigError(why)
    same = None if value is None else int(np.array_equal(value.labels, past))
    if coder.code(_SAME, same):
        labels = past
    else:
        labels = _code_cells(coder, past, None if value is None else value.labels)
    return Segmentation(labels, _code_vectors(coder, labels, value))


def _code_cells(
    coder: Coder, before: NDArray[np.uint8], value: NDArray[np.uint8] | None
) -> NDArray[np.uint8]:
    rows, columns = before.shape
    # A border of background removes the special cases at the edges.
    past = np.pad(before, 1).tolist()
    now = np.zeros((rows + 2, columns + 2), np.uint8).tolist()
    wanted = None if value is None else value.tolist()
    for row in range(1, rows + 1):
        above, here, old = now[row - 1], now[row], past[row]
        for column in range(1, columns + 1):
            target = None if wanted is None else wanted[row - 1][column - 1]
            over, below = above[column - 1 : column + 2], past[row + 1][column]
            here[column] = _code_label(coder, target, here[column - 1], over, old[column], below)
    return np.asarray(now, np.uint8)[1:-1, 1:-1]


def _code_label(
    coder: Coder, target: int | None, left: int, over: Sequence[int], before: int, below: int
) -> int:
    """`over`: the labels above left, above and above right; `before`, `below`: of the sample
    before, the cell's and that below it."""
    above_left, above, above_right = over
    context = (
        (left == above)
        | (left == above_left) << 1
        | (left == above_right) << 2
        | (left == before) << 3
        | (left == below) << 4
    )
    if coder.code(_LEFT, None if target is None else int(target == left), context):
        return left
    if above != left:
        context = (above == before) | (above == above_right) << 1
        if coder.code(_ABOVE, None if target is None else int(target == above), context):
            return above
    is_before = None if target is None else int(target == before)
    if before not in (left, above) and coder.code(_BEFORE, is_before):
        return before
    return coder.code(_VALUE, target)


def _code_vectors(
    coder: Coder, labels: NDArray[np.uint8], value: Segmentation | None
) -> NDArray[np.int16]:
    """The motion of each label that occurs; 0 for the others."""
    vectors = np.zeros((MAX_LABEL + 1, 2), np.int16)
    for label in np.unique(labels).tolist():
        vector = None if value is None else value.vectors[label].tolist()
        moves = None if vector is None else int(any(vector))
        if coder.code(_MOVES, moves, int(label > 0)):
            for axis in (0, 1):
                part = None if vector is None else vector[axis]
                vectors[label, axis] = coder.code(_VECTOR, part, axis)
    return vectors


SEGMENTATION: scaffold.Layer[Segmentation] = scaffold.Layer(
    name="segmentation",
    scope=scaffold.Scope.SAMPLE,
    header_bit=0,
    default=False,
    code=_code,
    digest=lambda value: scaffold.digest(value.labels, value.vectors),
    absent=scaffold.ABSENT + scaffold.ABSENT,
)
