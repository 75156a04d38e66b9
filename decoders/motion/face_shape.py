"""The shape of a face by its state: a mean, bent by weighted expressions, placed by a similarity.

Method: active shape models (Cootes et al. 1995). The table is fitted by
`gsvc.encoders.people.fit_face_table` to clips of two people; six expressions, turns of the head
among them, leave half a pixel at the lips of others at 288 lines.
"""

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.layers.faces import POSE_NUMBERS
from gsvc.decoders.motion.face_table import ROWS

MEAN_STEPS = 1 << 10
"""Of the mean, in the distance between the outer corners of the eyes."""
EXPRESSION_STEPS = 1 << 15
"""Of an expression with weight 1, in the same distance."""

_TABLE = np.array(ROWS)
LANDMARKS: list[int] = _TABLE[:, 0].tolist()
"""Of the 468 points of MediaPipe's face mesh, those of the shape: outer and inner lips first."""
LIPS = slice(0, 40)
MEAN = _TABLE[:, 1:3] / MEAN_STEPS
"""(points, 2), x and y in distances of the eyes."""
EXPRESSIONS = (_TABLE[:, 3:].reshape(len(_TABLE), -1, 2) / EXPRESSION_STEPS).transpose(1, 0, 2)
"""(6, points, 2) of weight 1, as `MEAN`."""
_UPPER, _LOWER = LANDMARKS.index(13), LANDMARKS.index(14)
_STEADY = [
    LANDMARKS.index(one)
    for one in (
        *(33, 133, 362, 263, 1, 2, 4, 98, 327, 168, 197, 195),
        *(70, 107, 336, 300, 234, 454, 10, 162, 389, 164),
    )
]
"""What the jaw does not move: eyes, nose, brows, temples."""

Points = NDArray[np.float64]
"""(..., points, 2): x and y."""


def points_of(states: NDArray[np.float64]) -> Points:
    """The points of faces with these states, (..., 10), in face units: as `Face.start`."""
    shape = MEAN + np.tensordot(states[..., POSE_NUMBERS:], EXPRESSIONS, 1)
    x, y, right, down = np.moveaxis(states[..., :POSE_NUMBERS, None], -2, 0)
    across = right * shape[..., 0] - down * shape[..., 1] + x
    along = down * shape[..., 0] + right * shape[..., 1] + y
    return np.stack([across, along], axis=-1)


def openings(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the mouths of faces with these states, (..., 10), are open: (...), in distances of
    the eyes, below 0 where lips are pressed."""
    shape = MEAN + np.tensordot(states[..., POSE_NUMBERS:], EXPRESSIONS, 1)
    return np.asarray(shape[..., _LOWER, 1] - shape[..., _UPPER, 1])


def laid_over(points: Points, shape: Points) -> tuple[NDArray[np.float64], Points]:
    """The similarities, (frames, 4), that lay a shape (points, 2) over points (frames, points, 2),
    as in a state, and the points in the shape's coordinates."""
    x, y = shape[_STEADY].T
    one, none = np.ones_like(x), np.zeros_like(x)
    rows = np.concatenate(
        [np.stack([one, none, x, -y], axis=1), np.stack([none, one, y, x], axis=1)]
    )
    wanted = points[:, _STEADY].transpose(0, 2, 1).reshape(len(points), -1)
    poses = np.linalg.lstsq(rows, wanted.T, rcond=None)[0].T
    axes = poses[:, 2] + 1j * poses[:, 3]
    placed = points[..., 0] + 1j * points[..., 1] - (poses[:, 0] + 1j * poses[:, 1])[:, None]
    back = placed / axes[:, None]
    return poses, np.stack([back.real, back.imag], axis=-1)


def states_of(points: Points) -> NDArray[np.float64]:
    """The states, (frames, 10), of faces with these points, (frames, points, 2); least squares."""
    poses, shapes = laid_over(points, MEAN)
    flat = EXPRESSIONS.reshape(len(EXPRESSIONS), -1).T
    bent = (shapes - MEAN).reshape(len(points), -1)
    weights = np.linalg.lstsq(flat, bent.T, rcond=None)[0].T
    return np.concatenate([poses, weights], axis=1)
