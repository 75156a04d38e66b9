"""Annotations of public sets: COCO's JSON, MOTChallenge, VATIC, VisDrone and Wildtrack.

Every reader raises InputError that names the file, and the line or entry where one is wrong.
"""

import configparser
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.datasets.annotated import truth as annotated
from gsvc.datasets.annotated.truth import AnnotatedClip, Boxes, Floats, make_boxes, read_text

_COCO_RATE, _VISDRONE_RATE, _WILDTRACK_RATE = Fraction(25), Fraction(30), Fraction(2)
"""Frames per second: COCO and VisDrone do not tell any, Wildtrack's are those annotated."""
_MOST_FRAMES = 1_000_000
_TRACK = "track_id"  # not COCO's own; sets of video have it


def read_coco(path: str | Path) -> AnnotatedClip:
    """The images of a file as a clip, in the file's order, at 25 frames per second.

    Format: T.-Y. Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014;
    https://cocodataset.org/#format-data. Pictures lie beside the file, or below its folder. Crowds
    are ignored. A box without `track_id` has no id.
    """
    path = Path(path)
    content = annotated.read_json(path)
    try:
        truth = _coco_truth(content)
        files = tuple(path.parent / one["file_name"] for one in content["images"])
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path}: {error} is missing or wrong: COCO's format has images (id, file_name), "
            "categories (id, name) and annotations (image_id, category_id, bbox of four numbers)"
        ) from error
    if not files:
        raise InputError(f"{path}: lists no images: give annotations of some")
    return AnnotatedClip(path.stem, files, _COCO_RATE, truth)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Every line that is not empty, behind its place, FILE:NUMBER."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            yield f"{path}:{number}", line


def _coco_truth(content: Mapping[str, Any]) -> Boxes:
    names = {one["id"]: str(one["name"]) for one in content["categories"]}
    order = {one["id"]: frame for frame, one in enumerate(content["images"])}
    rows = content["annotations"]
    boxes = [np.asarray(one["bbox"], np.float64) for one in rows]
    for number, box in enumerate(boxes):
        if box.shape != (4,) or not np.isfinite(box).all() or min(box[2:]) < 0:
            raise ValueError(f"annotations[{number}].bbox {box.tolist()}")
    corners = np.array(boxes).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    return make_boxes(
        [order[one["image_id"]] for one in rows],
        corners,
        label=[names[one["category_id"]] for one in rows],
        id=[int(one.get(_TRACK, annotated.NO_ID)) for one in rows],
        ignored=[bool(one.get("iscrowd")) for one in rows],
    )


_MOT_CLASSES = (
    *("person", "person on vehicle", "car", "bicycle", "motorbike", "vehicle", "static person"),
    *("distractor", "occluder", "occluder on ground", "occluder full", "reflection"),
)
CLASSES = dict(enumerate(_MOT_CLASSES, start=1)) | {101: "animal", 102: "thing"}
"""Names of the numbers; those above 100 are ours, for the synthetic set."""

AMBIGUOUS = 2, 7, 8, 12
"""What a detector of people may or may not find; the MOTChallenge leaves it out of its scores."""
_PLACE = "frame", "id", "left", "top", "width", "height", "considered", "class"
_MOT_COLUMNS = *_PLACE, "visibility"
_NUMBERS = {name: number for number, name in CLASSES.items()}


def read_mot(folder: str | Path) -> AnnotatedClip:
    """One sequence, SEQUENCE/{seqinfo.ini, gt/gt.txt, img1/000001.jpg ...}, with its truth.

    Format and classes: A. Milan et al., "MOT16: A Benchmark for Multi-Object Tracking", 2016
    (arXiv:1603.00831), section 4; MOT17 has the same. Rows of ambiguous classes are ignored people;
    other rows that the file marks as not considered are left out.
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
    return AnnotatedClip(name, pictures, rate, _mot_truth(folder / "gt" / "gt.txt", count))


def _info(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(read_text(path))
        return parser["Sequence"]
    except (configparser.Error, KeyError) as error:
        told = str(error).splitlines()[0]
        raise InputError(f"{path}: no section [Sequence] can be read ({told})") from error


def _mot_truth(path: Path, count: int) -> Boxes:
    table = _table(path, count, _MOT_COLUMNS, float, lambda row: row[7] in CLASSES)
    table = table[(table[:, 6] != 0) | np.isin(table[:, 7], AMBIGUOUS)]
    ambiguous = np.isin(table[:, 7], AMBIGUOUS)
    return make_boxes(
        frame=table[:, 0] - 1,
        id=table[:, 1],
        box=np.hstack([table[:, 2:4] - 1, table[:, 2:4] - 1 + table[:, 4:6]]),  # MOT counts from 1
        label=[CLASSES[n] for n in np.where(ambiguous, 1, table[:, 7]).astype(int)],
        visibility=table[:, 8],
        ignored=ambiguous,
    )


def _table(
    path: Path,
    count: int,
    columns: Sequence[str],
    kind: type[float],
    is_known: Callable[[list[float]], bool],
) -> Floats:
    """Rows with commas between numbers, each of which begins with a frame from 1 to `count`."""
    rows = []
    for place, line in _lines(path):
        row = _numbers(place, line, count, columns, kind)
        if not np.isfinite(row).all() or not is_known(row) or min(row[4:6]) < 0:
            told = f"class {row[7]:g}, size {row[4]:g} x {row[5]:g}, {columns[-1]} {row[-1]:g}"
            raise InputError(f"{place}: {told}: no such box")
        rows.append(row)
    return np.array(rows, np.float64).reshape(-1, len(columns))


def _numbers(
    place: str, line: str, count: int, columns: Sequence[str], kind: type[float]
) -> list[float]:
    try:
        row = [kind(part) for part in line.rstrip(", ").split(",")]
    except ValueError as error:
        told = "whole numbers" if kind is int else "numbers"
        raise InputError(f"{place}: {error}: write {told} with commas between them") from error
    if len(row) != len(columns):
        told = f"truth has {len(columns)} ({', '.join(columns)})"
        raise InputError(f"{place}: {len(row)} columns: {told}; is this a file of detections?")
    if not 1 <= row[0] <= count or row[0] % 1:
        why = f"{place}: frame {line.partition(',')[0]}: there are pictures 1 to {count}"
        raise InputError(why)
    return row


def mot_text(boxes: Boxes) -> str:
    """Truth in the format of `gt.txt`. Raises ConfigError for a class that it has no number for."""
    if unknown := set(boxes.label) - set(_NUMBERS):
        known = ", ".join(_NUMBERS)
        raise ConfigError(f"class {min(unknown)!r} has no number in MOT files: take one of {known}")
    lines = []
    for row in np.lexsort((boxes.id, boxes.frame)):
        left, top, right, bottom = boxes.box[row]
        box = f"{left + 1:.6g},{top + 1:.6g},{right - left:.6g},{bottom - top:.6g}"
        number, considered = _NUMBERS[boxes.label[row]], int(not boxes.ignored[row])
        head = f"{boxes.frame[row] + 1},{boxes.id[row]}"
        lines.append(f"{head},{box},{considered},{number},{boxes.visibility[row]:.6g}\n")
    return "".join(lines)


def sequence_info(name: str, rate: Fraction, count: int, size: tuple[int, int]) -> str:
    """The text of `seqinfo.ini`, for PNG pictures; `size`: width and height."""
    return (
        f"[Sequence]\nname={name}\nimDir=img1\nframeRate={rate}\nseqLength={count}\n"
        f"imWidth={size[0]}\nimHeight={size[1]}\nimExt=.png\n"
    )


_VIDEOS = ".avi", ".mp4", ".mkv", ".mov"
_VATIC_COLUMNS = 10
_LABELS = {"human": "person", "pedestrian": "person", "car/vehicle": "car"}
"""What others call COCO's classes, in small letters."""
_OCCLUDED = 0.5  # visibility of what is partly hidden; the files do not tell how much is


def vatic_files(path: Path) -> list[Path]:
    """The files of boxes that a path names: itself, or those of a folder; each has its video."""
    inside = [path] if path.is_file() else sorted(path.glob("*.txt"))
    return [one for one in inside if one.suffix.lower() == ".txt" and _video(one) is not None]


def read_vatic(path: str | Path) -> annotated.AnnotatedVideo:
    """The video beside a file of boxes, with them.

    Format: C. Vondrick et al., "Efficiently Scaling up Crowdsourced Video Annotation", 2013. Each
    line is track, left, top, right, bottom, frame from 0, lost, occluded, generated, "label", with
    spaces between. The multi-view sequences of EPFL (terrace1-c0.avi, terrace1-c0.txt ...) have
    such truth: Y. Xu et al., "Multi-view People Tracking via Hierarchical Trajectory Composition",
    CVPR 2016. What has left the picture is left out, interpolated boxes count.
    """
    path = Path(path)
    video = _video(path)
    if video is None:
        told = ", ".join(_VIDEOS)
        raise InputError(f"{path}: no video of its name beside it: put one there ({told})")
    rows = [_vatic_row(place, line) for place, line in _lines(path)]
    table = np.array([row for row, _ in rows], np.int64).reshape(-1, _VATIC_COLUMNS - 1)
    boxes = make_boxes(
        frame=table[:, 5],
        id=table[:, 0],
        box=table[:, 1:5],
        label=[_LABELS.get(label.lower(), label.lower()) for _, label in rows],
        visibility=np.where(table[:, 7] == 1, _OCCLUDED, 1.0),
    )
    return annotated.AnnotatedVideo(path.stem, video, boxes.chosen(table[:, 6] != 1))


def _video(path: Path) -> Path | None:
    beside = (path.with_suffix(suffix) for suffix in _VIDEOS)
    return next((one for one in beside if one.is_file()), None)


def _vatic_row(place: str, line: str) -> tuple[list[int], str]:
    """The numbers and the label."""
    try:
        *parts, label = shlex.split(line)
        if len(parts) + 1 != _VATIC_COLUMNS:
            raise ValueError(f"{len(parts) + 1} columns")
        row = list(map(int, parts))
        track, *box, frame = row[:6]
        if not 0 <= frame < _MOST_FRAMES or box[2] < box[0] or box[3] < box[1] or track < 0:
            raise ValueError(f"track {track}, frame {frame}, box {box}")
    except ValueError as error:
        raise InputError(
            f"{place}: {error}: write track xmin ymin xmax ymax frame lost occluded generated label"
        ) from error
    return row, label


_VISDRONE_COLUMNS = *_PLACE, "truncation", "occlusion"
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
    """One sequence, ROOT/sequences/NAME, by the folder of its pictures; at 30 frames a second.

    Format and classes: P. Zhu et al., "Detection and Tracking Meet Drones Challenge", TPAMI 2021
    (arXiv:2001.06303). Regions and rows that the file marks as not considered are ignored truth.
    """
    folder = Path(folder)
    pictures = tuple(sorted(folder.glob("*.jpg")))
    if not pictures:
        raise InputError(f"{folder}: holds no .jpg: give sequences/NAME of VisDrone")
    truth = _visdrone_truth(_annotations(folder), len(pictures))
    return AnnotatedClip(folder.name, pictures, _VISDRONE_RATE, truth)


def _annotations(folder: Path) -> Path:
    return folder.parent.parent / "annotations" / f"{folder.name}.txt"


def _visdrone_truth(path: Path, count: int) -> Boxes:
    def is_known(row: list[float]) -> bool:
        return 0 <= row[7] < len(_CLASSES) and 0 <= row[9] < len(_VISIBILITY)

    table = _table(path, count, _VISDRONE_COLUMNS, int, is_known).astype(int)
    return make_boxes(
        frame=table[:, 0] - 1,
        id=table[:, 1],
        box=np.hstack([table[:, 2:4], table[:, 2:4] + table[:, 4:6]]),
        label=[_CLASSES[number] for number in table[:, 7]],
        visibility=[_VISIBILITY[degree] for degree in table[:, 9]],
        ignored=(table[:, 6] == 0) | (table[:, 7] == 0),
    )


_GRID_COLUMNS, _GRID_ROWS = 480, 1440  # of Wildtrack's grid on the ground
_CELL = 0.025  # metres
_CORNER = np.array([-3.0, -9.0])  # of cell 0, in metres


def read_wildtrack(root: str | Path) -> annotated.MultiViewClip:
    """All cameras and places of the set at `root`.

    Format: T. Chavdarova et al., "WILDTRACK: A Multi-camera HD Dataset for Dense Unscripted
    Pedestrian Detection", CVPR 2018. ROOT/annotations_positions/00000000.json lists people, each
    with `personID`, `positionID` (a cell of a grid on the ground) and `views` (a box a camera, -1
    where it does not see the person). ROOT/Image_subsets/C1/00000000.png is of the first camera.
    """
    root = Path(root)
    folder = root / "annotations_positions"
    files = sorted(folder.glob("*.json"))
    if not files:
        raise InputError(f"{folder}: holds no JSON file: give the folder that Wildtrack unpacks to")
    people = [(frame, *one) for frame, path in enumerate(files) for one in _people(path)]
    cells = np.array([cell for _, _, cell, _ in people], np.int64)
    places = _CORNER + _CELL * np.stack([cells % _GRID_COLUMNS, cells // _GRID_COLUMNS], axis=-1)
    frames, ids = [frame for frame, _, _, _ in people], [person for _, person, _, _ in people]
    boxes = [(frame, person, *box) for frame, person, _, own in people for box in own]
    seen = np.array(boxes, np.float64).reshape(-1, 7)
    clips = []
    for view in range(1 + int(seen[:, 2].max(initial=-1))):
        own, name = seen[seen[:, 2] == view], f"C{view + 1}"
        truth = make_boxes(own[:, 0], own[:, 3:], label="person", id=own[:, 1])
        pictures = (root / "Image_subsets" / name / f"{path.stem}.png" for path in files)
        clips.append(AnnotatedClip(name, tuple(pictures), _WILDTRACK_RATE, truth))
    return annotated.MultiViewClip(tuple(clips), annotated.make_places(frames, places, ids))


def _people(path: Path) -> Iterator[tuple[int, int, list[tuple[float, ...]]]]:
    """Id, cell and boxes of each person in a file; a box is view, left, top, right, bottom."""
    content = annotated.read_json(path)
    try:
        for entry in content:
            person, cell = int(entry["personID"]), int(entry["positionID"])
            if not 0 <= cell < _GRID_COLUMNS * _GRID_ROWS:
                raise ValueError(f"positionID {cell}")
            yield person, cell, list(_boxes(entry["views"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {error} is missing or wrong: each person has personID, positionID "
            f"(0 to {_GRID_COLUMNS * _GRID_ROWS - 1}) and views (viewNum, xmin, ymin, xmax, ymax)"
        ) from error


def _boxes(views: list[dict[str, Any]]) -> Iterator[tuple[float, ...]]:
    for one in views:
        left, top, right, bottom = (float(one[name]) for name in ("xmin", "ymin", "xmax", "ymax"))
        view = int(one["viewNum"])
        if not 0 <= view < 100:
            raise ValueError(f"viewNum {view}")
        if right > left and bottom > top:  # all are -1 where the camera does not see the person
            yield view, left, top, right, bottom
