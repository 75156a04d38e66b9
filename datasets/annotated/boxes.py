"""Boxes and places as plain arrays, one row each: what truth and analysis are compared in."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsvc.codec.bitstream.errors import ConfigError

NO_ID = -1
"""Of a box that belongs to no track."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Arrays of one length, one row for each thing in a frame, in any order."""

    frame: Ints
    """Of each thing, from 0, int64 (n,)."""

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in arrays(self).items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ConfigError(f"arrays of different lengths ({told}): give a row for each thing")

    def __len__(self) -> int:
        return len(self.frame)

    def chosen(self, rows: NDArray[Any]) -> Self:
        """Only some rows: a mask, or indices."""
        return replace(self, **{name: values[rows] for name, values in arrays(self).items()})


@dataclass(frozen=True)
class Boxes(Rows):
    """Boxes in the frames of a clip. Raises ConfigError for arrays of different lengths."""

    box: Floats
    """Left, top, right and bottom in pixels, float64 (n, 4); pixel 0 spans 0 to 1."""
    label: NDArray[np.str_]
    """Class, str (n,): "person"; "" is unknown."""
    id: Ints
    """Of the track, int64 (n,); `NO_ID` for none."""
    score: Floats
    """How sure a detector is, float64 (n,), 0 to 1; 1 in truth."""
    visibility: Floats
    """Share of the thing that the frame shows, float64 (n,), 0 to 1."""
    ignored: NDArray[np.bool_]
    """Truth that counts neither when it is found nor when it is not, bool (n,)."""

    def scaled(self, across: float, down: float) -> "Boxes":
        """The boxes of a picture that is so many times as wide and as high."""
        return replace(self, box=self.box * (across, down, across, down))


@dataclass(frozen=True)
class Places(Rows):
    """Where things stand on the ground. Raises ConfigError for arrays of different lengths."""

    place: Floats
    """x and y in metres, float64 (n, 2)."""
    id: Ints
    """Of the track, int64 (n,); `NO_ID` for none."""


def make_boxes(
    frame: ArrayLike,
    box: ArrayLike,
    *,
    label: ArrayLike = "",
    id: ArrayLike = NO_ID,
    score: ArrayLike = 1.0,
    visibility: ArrayLike = 1.0,
    ignored: ArrayLike = False,
) -> Boxes:
    """Boxes of anything that numpy takes for arrays; a single value stands for every row.

    Raises ConfigError for arrays that do not fit together.
    """
    frames = np.asarray(frame, np.int64).reshape(-1)

    def column(values: ArrayLike, kind: Any) -> NDArray[Any]:
        array = np.asarray(values, kind)
        return np.full(len(frames), array) if array.ndim == 0 else array.reshape(-1)

    return Boxes(
        frame=frames,
        box=np.asarray(box, np.float64).reshape(-1, 4),
        label=column(label, np.str_),
        id=column(id, np.int64),
        score=column(score, np.float64),
        visibility=column(visibility, np.float64),
        ignored=column(ignored, np.bool_),
    )


def make_places(frame: ArrayLike, place: ArrayLike, id: ArrayLike) -> Places:
    """Places of anything that numpy takes for arrays. Raises ConfigError as `make_boxes` does."""
    return Places(
        frame=np.asarray(frame, np.int64).reshape(-1),
        place=np.asarray(place, np.float64).reshape(-1, 2),
        id=np.asarray(id, np.int64).reshape(-1),
    )


def arrays(rows: Rows) -> dict[str, NDArray[Any]]:
    """The columns by name."""
    return {one.name: getattr(rows, one.name) for one in fields(rows)}


def joined(parts: Sequence[Boxes]) -> Boxes:
    """All boxes of several lists, in their order."""
    columns = [arrays(part) for part in (make_boxes([], []), *parts)]
    return Boxes(**{name: np.concatenate([one[name] for one in columns]) for name in columns[0]})


def overlaps(one: Floats, other: Floats) -> Floats:
    """Intersection over union of boxes (n, 4) with boxes (m, 4), float64 (n, m)."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=-1) for boxes in (one, other)]
    union = areas[0][:, None] + areas[1][None] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))
