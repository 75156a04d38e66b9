"""Truth: boxes and places as plain arrays, one row each, and the clips that they are true of."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips import clip_reader
from gsvc.datasets.clips.clip_reader import TestClip, load_clip, protocol_size, resized

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
    """Boxes of what numpy takes for arrays, or one value for every row. Raises ConfigError."""
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


def read_text(path: Path) -> str:
    """A file of UTF-8. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text in UTF-8: give the annotations' file") from error


def read_json(path: Path) -> Any:
    """What a JSON file holds. Raises InputError with line and column of a fault."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        why = f"{path}:{error.lineno}:{error.colno}: no JSON ({error.msg}): download the file again"
        raise InputError(why) from error


@dataclass(frozen=True)
class AnnotatedClip:
    """Pictures in files, and what is in them. Files are opened by `load` only."""

    name: str
    """Of the clip, usable as a file name."""
    pictures: tuple[Path, ...] = field(repr=False)
    """One file a frame, all of one size."""
    frame_rate: Fraction
    """Frames per second."""
    truth: Boxes = field(repr=False)
    """In pixels of the files."""

    def load(self, size: str = "native", frames: int | None = None) -> tuple[TestClip, Boxes]:
        """The first `frames` frames (None: all) at a size of the evaluation protocol.

        The truth is cut and scaled with them. Raises InputError for a picture that is missing,
        damaged or of another size than the first, ConfigError for another `size` or no frames.
        """
        clip_reader.check_frames(frames)
        read: list[Picture] = []
        for path in self.pictures[:frames]:
            read.append(read_picture(path))
            if read[-1].shape != read[0].shape:
                raise InputError(f"{path}: of another size than the first: make all of one size")
        return _sized(TestClip(self.name, read, self.frame_rate), self.truth, size)


@dataclass(frozen=True)
class AnnotatedVideo:
    """A video file, and what is in it; it is opened by `load` only."""

    name: str
    video: Path = field(repr=False)
    truth: Boxes = field(repr=False)
    """In pixels of the file."""

    def load(self, size: str = "native", frames: int | None = None) -> tuple[TestClip, Boxes]:
        """As of `AnnotatedClip`. Raises InputError for what is no video, ConfigError."""
        pictures, rate = load_clip(self.video, frames, None)
        if not pictures:
            raise InputError(f"{self.video}: has no frame: check the file")
        return _sized(TestClip(self.name, pictures, rate), self.truth, size)


@dataclass(frozen=True)
class MultiViewClip:
    """Several cameras that see one piece of ground at the same times."""

    views: tuple[AnnotatedClip, ...]
    """One a camera."""
    places: Places = field(repr=False)
    """Where everything stands, seen or not."""
    homographies: tuple[Floats, ...] = field(default=(), repr=False)
    """For each camera, from (x, y, 1) in metres to pixels in each frame, float64 (frames, 3, 3);
    empty where the set does not tell."""


def _sized(clip: TestClip, truth: Boxes, size: str) -> tuple[TestClip, Boxes]:
    """Pictures and truth at a size of the evaluation protocol."""
    height, width = clip.frames[0].shape[:2]
    across, down = protocol_size(width, height, clip_reader.short_side(size))
    pictures = [resized(one, across, down) for one in clip.frames]
    shown = truth.chosen(truth.frame < len(pictures))
    sized = TestClip(clip.name, pictures, clip.frame_rate)
    return sized, replace(shown, box=shown.box * np.tile((across / width, down / height), 2))


def read_picture(path: Path) -> Picture:
    """A picture file as RGB uint8 (H, W, 3). Raises InputError."""
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    found = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB) if data.size else None
    if found is None:
        raise InputError(f"{path}: is no picture, or damaged: copy it again")
    return np.asarray(found, np.uint8)
