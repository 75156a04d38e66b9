"""Wildtrack: seven cameras of one square, and where everybody stands.

Format: T. Chavdarova et al., "WILDTRACK: A Multi-camera HD Dataset for Dense Unscripted Pedestrian
Detection", CVPR 2018. ROOT/annotations_positions/00000000.json has a list of people, each with
`personID`, `positionID` (a cell of a grid on the ground) and `views` (a box a camera, -1 where it
does not see the person); ROOT/Image_subsets/C1/00000000.png is the first camera's picture.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gsvc.codec.bitstream.errors import InputError
from gsvc.datasets.annotated.truth import (
    AnnotatedClip,
    Floats,
    Ints,
    MultiViewClip,
    make_boxes,
    make_places,
    read_json,
)

_RATE = Fraction(2)
"""Annotated frames per second."""
_COLUMNS, _ROWS = 480, 1440
"""Of the grid on the ground."""
_CELL = 0.025
"""Metres."""
_CORNER = np.array([-3.0, -9.0])
"""Of cell 0, in metres."""


class _Seen(NamedTuple):
    frame: int
    person: int
    view: int
    box: tuple[float, float, float, float]


def read_wildtrack(root: str | Path) -> MultiViewClip:
    """All cameras and places of the set at `root`. Raises InputError that names file and entry."""
    root = Path(root)
    folder = root / "annotations_positions"
    files = sorted(folder.glob("*.json"))
    if not files:
        raise InputError(f"{folder}: holds no JSON file: give the folder that Wildtrack unpacks to")
    people = [entry for frame, path in enumerate(files) for entry in _people(path, frame)]
    seen = [one for _, _, _, boxes in people for one in boxes]
    cells = np.array([cell for _, _, cell, _ in people], np.int64)
    frames, ids = [frame for frame, _, _, _ in people], [person for _, person, _, _ in people]
    views = tuple(
        _view(root, view, [path.stem for path in files], seen)
        for view in range(1 + max((one.view for one in seen), default=-1))
    )
    return MultiViewClip(views, make_places(frames, cell_place(cells), ids))


def cell_place(cells: Ints) -> Floats:
    """x and y in metres of cells of Wildtrack's grid, int64 (n,) to float64 (n, 2)."""
    return np.asarray(_CORNER + _CELL * np.stack([cells % _COLUMNS, cells // _COLUMNS], axis=-1))


def _people(path: Path, frame: int) -> Iterator[tuple[int, int, int, list[_Seen]]]:
    """Frame, id, cell and boxes of each person in a file."""
    content = read_json(path)
    try:
        for entry in content:
            person, cell = int(entry["personID"]), int(entry["positionID"])
            if not 0 <= cell < _COLUMNS * _ROWS:
                raise ValueError(f"positionID {cell}")
            yield frame, person, cell, list(_boxes(entry["views"], frame, person))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {error} is missing or wrong: each person has personID, positionID "
            f"(0 to {_COLUMNS * _ROWS - 1}) and views (viewNum, xmin, ymin, xmax, ymax)"
        ) from error


def _boxes(views: list[dict[str, Any]], frame: int, person: int) -> Iterator[_Seen]:
    for one in views:
        left, top, right, bottom = (float(one[name]) for name in ("xmin", "ymin", "xmax", "ymax"))
        view = int(one["viewNum"])
        if not 0 <= view < 100:
            raise ValueError(f"viewNum {view}")
        if right > left and bottom > top:  # all are -1 where the camera does not see the person
            yield _Seen(frame, person, view, (left, top, right, bottom))


def _view(root: Path, view: int, stems: list[str], seen: list[_Seen]) -> AnnotatedClip:
    name = f"C{view + 1}"
    own = [one for one in seen if one.view == view]
    truth = make_boxes(
        [one.frame for one in own],
        [one.box for one in own],
        label="person",
        id=[one.person for one in own],
    )
    pictures = tuple(root / "Image_subsets" / name / f"{stem}.png" for stem in stems)
    return AnnotatedClip(name, pictures, _RATE, truth)
