"""Boxes as VATIC writes them: a text file beside a video of the same name.

The multi-view sequences of EPFL (terrace1-c0.avi, terrace1-c0.txt ...) have such truth: Y. Xu et
al., "Multi-view People Tracking via Hierarchical Trajectory Composition", CVPR 2016. Each line is
track, left, top, right, bottom, frame from 0, lost, occluded, generated, "label", with spaces
between. Format: C. Vondrick et al., "Efficiently Scaling up Crowdsourced Video Annotation", 2013.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from gsvc.codec.bitstream.errors import InputError
from gsvc.datasets.annotated.truth import AnnotatedVideo, Boxes, make_boxes, read_text

_VIDEOS = ".avi", ".mp4", ".mkv", ".mov"
_COLUMNS = 10
_LABELS = {"human": "person", "pedestrian": "person", "car/vehicle": "car"}
"""What others call COCO's classes, in small letters."""
_OCCLUDED = 0.5
"""Visibility of what is partly hidden; the files do not tell how much is."""
_MOST_FRAMES = 1_000_000


class _VaticRow(NamedTuple):
    track: int
    box: tuple[float, ...]
    frame: int
    is_lost: bool
    is_occluded: bool
    label: str


def vatic_files(path: Path) -> list[Path]:
    """The files of boxes that a path names: itself, or those of a folder; each has its video."""
    inside = [path] if path.is_file() else sorted(path.glob("*.txt"))
    return [one for one in inside if one.suffix.lower() == ".txt" and _video(one) is not None]


def read_vatic(path: str | Path) -> AnnotatedVideo:
    """The video beside a file of boxes, with them.

    What has left the picture is left out, interpolated boxes count. Raises InputError that names
    file and line.
    """
    path = Path(path)
    video = _video(path)
    if video is None:
        told = ", ".join(_VIDEOS)
        raise InputError(f"{path}: no video of its name beside it: put one there ({told})")
    return AnnotatedVideo(path.stem, video, _truth(path))


def _video(path: Path) -> Path | None:
    beside = (path.with_suffix(suffix) for suffix in _VIDEOS)
    return next((one for one in beside if one.is_file()), None)


def _truth(path: Path) -> Boxes:
    lines = enumerate(read_text(path).splitlines(), 1)
    rows = [_row(f"{path}:{number}", line) for number, line in lines if line.strip()]
    rows = [row for row in rows if not row.is_lost]
    return make_boxes(
        frame=[row.frame for row in rows],
        id=[row.track for row in rows],
        box=[row.box for row in rows],
        label=[_LABELS.get(row.label, row.label) for row in rows],
        visibility=[_OCCLUDED if row.is_occluded else 1.0 for row in rows],
    )


def _row(place: str, line: str) -> _VaticRow:
    try:
        parts = shlex.split(line)
        if len(parts) != _COLUMNS:
            raise ValueError(f"{len(parts)} columns")
        track, *box, frame, lost, occluded, _ = map(int, parts[:-1])
        if not 0 <= frame < _MOST_FRAMES or box[2] < box[0] or box[3] < box[1] or track < 0:
            raise ValueError(f"track {track}, frame {frame}, box {box}")
    except ValueError as error:
        raise InputError(
            f"{place}: {error}: write track xmin ymin xmax ymax frame lost occluded generated label"
        ) from error
    return _VaticRow(
        track, tuple(map(float, box)), frame, lost == 1, occluded == 1, parts[-1].lower()
    )
