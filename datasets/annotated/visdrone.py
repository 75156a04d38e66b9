"""VisDrone, video and tracking: ROOT/sequences/NAME/0000001.jpg ..., ROOT/annotations/NAME.txt.

Format and classes: P. Zhu et al., "Detection and Tracking Meet Drones Challenge", TPAMI 2021
(arXiv:2001.06303). The files do not tell the frame rate; 30 frames a second are taken.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np

from gsvc.codec.bitstream.errors import InputError
from gsvc.datasets.annotated.truth import AnnotatedClip, Boxes, make_boxes, read_text

_RATE = Fraction(30)
_COLUMNS = 10
_CLASSES = (
    *("ignored", "person", "person", "bicycle", "car", "car", "truck", "tricycle"),
    *("tricycle", "bus", "motorcycle", "other"),
)
"""By number: pedestrians and other people, and cars and vans, have one name, that of COCO."""
_VISIBILITY = 1.0, 0.75, 0.25
"""The middle of what each degree of occlusion stands for: none, up to half, more."""


def is_visdrone(folder: Path) -> bool:
    """Whether it is the folder of one sequence's pictures."""
    return folder.parent.name == "sequences" and _annotations(folder).is_file()


def read_visdrone(folder: str | Path) -> AnnotatedClip:
    """One sequence, by the folder of its pictures.

    Regions and rows that the file marks as not considered are ignored truth. Raises InputError that
    names the file, and the line where one is wrong.
    """
    folder = Path(folder)
    pictures = tuple(sorted(folder.glob("*.jpg")))
    if not pictures:
        raise InputError(f"{folder}: holds no .jpg: give sequences/NAME of VisDrone")
    return AnnotatedClip(folder.name, pictures, _RATE, _truth(_annotations(folder), len(pictures)))


def _annotations(folder: Path) -> Path:
    return folder.parent.parent / "annotations" / f"{folder.name}.txt"


def _truth(path: Path, count: int) -> Boxes:
    rows = [
        _row(f"{path}:{number}", line, count)
        for number, line in enumerate(read_text(path).splitlines(), 1)
        if line.strip()
    ]
    table = np.array(rows, np.int64).reshape(-1, _COLUMNS)
    return make_boxes(
        frame=table[:, 0] - 1,
        id=table[:, 1],
        box=np.hstack([table[:, 2:4], table[:, 2:4] + table[:, 4:6]]),
        label=[_CLASSES[number] for number in table[:, 7]],
        visibility=[_VISIBILITY[degree] for degree in table[:, 9]],
        ignored=(table[:, 6] == 0) | (table[:, 7] == 0),
    )


def _row(place: str, line: str, count: int) -> list[int]:
    try:
        row = [int(part) for part in line.rstrip(", ").split(",")]
    except ValueError as error:
        raise InputError(f"{place}: {error}: write whole numbers with commas between") from error
    if len(row) != _COLUMNS:
        raise InputError(
            f"{place}: {len(row)} columns: truth has {_COLUMNS} (frame, id, left, top, width, "
            "height, considered, class, truncation, occlusion)"
        )
    if not 1 <= row[0] <= count:
        raise InputError(f"{place}: frame {row[0]}: there are pictures 1 to {count}")
    if not (0 <= row[7] < len(_CLASSES) and 0 <= row[9] < len(_VISIBILITY) and min(row[4:6]) >= 0):
        raise InputError(f"{place}: class {row[7]}, occlusion {row[9]}: no such box")
    return row
