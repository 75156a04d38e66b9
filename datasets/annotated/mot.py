"""Sequences of the MOTChallenge: SEQUENCE/{seqinfo.ini, gt/gt.txt, img1/000001.jpg ...}.

Format and classes: A. Milan et al., "MOT16: A Benchmark for Multi-Object Tracking", 2016
(arXiv:1603.00831), section 4; MOT17 has the same.
"""

import configparser
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.datasets.annotated.truth import AnnotatedClip, Boxes, make_boxes, read_text

CLASSES = dict(
    enumerate(
        (
            *("person", "person on vehicle", "car", "bicycle", "motorbike", "vehicle"),
            *("static person", "distractor", "occluder", "occluder on ground", "occluder full"),
            "reflection",
        ),
        start=1,
    )
) | {101: "animal", 102: "thing"}
"""Names of the numbers; those above 100 are ours, for the synthetic set."""

AMBIGUOUS = 2, 7, 8, 12
"""What a detector of people may or may not find; the MOTChallenge leaves it out of its scores."""


_COLUMNS = 9
_MOST_FRAMES = 1_000_000
_NUMBERS = {name: number for number, name in CLASSES.items()}


def read_mot(folder: str | Path) -> AnnotatedClip:
    """One sequence, with the truth of `gt/gt.txt`.

    Rows of ambiguous classes are ignored people; other rows that the file marks as not considered
    are left out. Raises InputError that names the file, and the line where one is wrong.
    """
    folder = Path(folder)
    info = _info(folder / "seqinfo.ini")
    try:
        rate, count = Fraction(info["frameRate"]), int(info["seqLength"])
        images, suffix = info["imDir"], info["imExt"]
        if rate <= 0 or not 1 <= count <= _MOST_FRAMES:
            raise ValueError(f"frameRate {rate}, seqLength {count}")
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"{folder / 'seqinfo.ini'}: {error} is missing or out of range: [Sequence] needs "
            f"frameRate, seqLength (1 to {_MOST_FRAMES}), imDir and imExt"
        ) from error
    pictures = tuple(folder / images / f"{index:06}{suffix}" for index in range(1, count + 1))
    name = info.get("name") or folder.resolve().name
    return AnnotatedClip(name, pictures, rate, _truth(folder / "gt" / "gt.txt", count))


def _info(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(read_text(path))
        return parser["Sequence"]
    except (configparser.Error, KeyError) as error:
        told = str(error).splitlines()[0]
        raise InputError(f"{path}: no section [Sequence] can be read ({told})") from error


def _truth(path: Path, count: int) -> Boxes:
    rows = [
        _row(f"{path}:{number}", line, count)
        for number, line in enumerate(read_text(path).splitlines(), 1)
        if line.strip()
    ]
    rows = [row for row in rows if row[6] or row[7] in AMBIGUOUS]
    table = np.array(rows, np.float64).reshape(-1, _COLUMNS)
    ambiguous = np.isin(table[:, 7], AMBIGUOUS)
    return make_boxes(
        frame=table[:, 0] - 1,
        id=table[:, 1],
        box=np.hstack([table[:, 2:4] - 1, table[:, 2:4] - 1 + table[:, 4:6]]),  # MOT counts from 1
        label=[CLASSES[n] for n in np.where(ambiguous, 1, table[:, 7]).astype(int)],
        visibility=table[:, 8],
        ignored=ambiguous,
    )


def _row(place: str, line: str, count: int) -> list[float]:
    try:
        row = [float(part) for part in line.split(",")]
    except ValueError as error:
        raise InputError(f"{place}: {error}: write numbers with commas between them") from error
    if len(row) != _COLUMNS:
        raise InputError(
            f"{place}: {len(row)} columns: truth has {_COLUMNS} (frame, id, left, top, width, "
            "height, considered, class, visibility); is this a file of detections?"
        )
    if not 1 <= row[0] <= count or row[0] % 1:
        raise InputError(f"{place}: frame {row[0]:g}: seqinfo.ini says 1 to {count}")
    if row[7] not in CLASSES or not np.isfinite(row).all() or min(row[4:6]) < 0:
        raise InputError(f"{place}: class {row[7]:g}, size {row[4]:g} x {row[5]:g}: no such box")
    return row


def mot_text(boxes: Boxes) -> str:
    """Truth in the format of `gt.txt`. Raises ConfigError for a class that it has no number for."""
    if unknown := set(boxes.label) - set(_NUMBERS):
        known = ", ".join(_NUMBERS)
        raise ConfigError(f"class {min(unknown)!r} has no number in MOT files: take one of {known}")
    return "".join(_lines(boxes))


def _lines(boxes: Boxes) -> Iterator[str]:
    for row in np.lexsort((boxes.id, boxes.frame)):
        left, top, right, bottom = boxes.box[row]
        box = f"{left + 1:.6g},{top + 1:.6g},{right - left:.6g},{bottom - top:.6g}"
        number, considered = _NUMBERS[boxes.label[row]], int(not boxes.ignored[row])
        head = f"{boxes.frame[row] + 1},{boxes.id[row]}"
        yield f"{head},{box},{considered},{number},{boxes.visibility[row]:.6g}\n"


def sequence_info(name: str, rate: Fraction, count: int, size: tuple[int, int]) -> str:
    """The text of `seqinfo.ini`, for PNG pictures; `size`: width and height."""
    return (
        f"[Sequence]\nname={name}\nimDir=img1\nframeRate={rate}\nseqLength={count}\n"
        f"imWidth={size[0]}\nimHeight={size[1]}\nimExt=.png\n"
    )
