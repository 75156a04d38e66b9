"""How a segmentation is laid out in elements: labels cell by cell, and a motion for each label.

A label is coded under a template of its coded neighbours, as in JBIG (ITU-T T.82), for several
labels.
"""

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.types import MAX_LABEL, Geometry


def code_labels(
    coder: Coder,
    geometry: Geometry,
    before: NDArray[np.uint8] | None,
    value: NDArray[np.uint8] | None,
) -> NDArray[np.uint8]:
    """Code labels, uint8 `Geometry.label_shape`, 0-7; `value` is None when reading.

    `before`: the labels of the sample before, None for all background.
    Raises ConfigError for a `value` of another shape.
    """
    shape = geometry.label_shape
    before = before if before is not None else np.zeros(shape, np.uint8)
    if value is not None and value.shape != shape:
        raise ConfigError(f"segmentation of shape {value.shape}: this video takes {shape}")
    same = None if value is None else int(np.array_equal(value, before))
    if coder.code("labels.same", same):
        return before
    return _code_cells(coder, before, value)


def _code_cells(
    coder: Coder, before: NDArray[np.uint8], value: NDArray[np.uint8] | None
) -> NDArray[np.uint8]:
    rows, columns = before.shape
    # A border of background spares every special case at the edges.
    past = np.pad(before, 1).tolist()
    now = np.zeros((rows + 2, columns + 2), np.uint8).tolist()
    wanted = None if value is None else value.tolist()
    for row in range(1, rows + 1):
        above, here, old = now[row - 1], now[row], past[row]
        for column in range(1, columns + 1):
            target = None if wanted is None else wanted[row - 1][column - 1]
            here[column] = _code_label(
                coder,
                target,
                left=here[column - 1],
                above=above[column],
                above_left=above[column - 1],
                above_right=above[column + 1],
                before=old[column],
                below=past[row + 1][column],
            )
    return np.asarray(now, np.uint8)[1:-1, 1:-1]


def _code_label(
    coder: Coder,
    target: int | None,
    *,
    left: int,
    above: int,
    above_left: int,
    above_right: int,
    before: int,
    below: int,
) -> int:
    context = (
        (left == above)
        | (left == above_left) << 1
        | (left == above_right) << 2
        | (left == before) << 3
        | (left == below) << 4
    )
    if coder.code("labels.left", None if target is None else int(target == left), context):
        return left
    if above != left:
        context = (above == before) | (above == above_right) << 1
        if coder.code("labels.above", None if target is None else int(target == above), context):
            return above
    is_before = None if target is None else int(target == before)
    if before not in (left, above) and coder.code("labels.before", is_before):
        return before
    return coder.code("labels.value", target)


def code_layers(
    coder: Coder, labels: NDArray[np.uint8], value: NDArray[np.int16] | None
) -> NDArray[np.int16]:
    """Code the motion of each label that `labels` holds: int16 (8, 2), x and y in motion units.

    `value` is None when reading; labels that do not occur get 0.
    """
    layers = np.zeros((MAX_LABEL + 1, 2), np.int16)
    for label in np.unique(labels).tolist():
        vector = None if value is None else value[label].tolist()
        moves = None if vector is None else int(any(vector))
        if coder.code("layers.moves", moves, int(label > 0)):
            for axis in (0, 1):
                part = None if vector is None else vector[axis]
                layers[label, axis] = coder.code("layers.vector", part, axis)
    return layers
