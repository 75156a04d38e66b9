"""A clip with its truth, read from pictures or a video.

Failures of annotation files name the file, the place in it and the remedy.
"""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.annotated.boxes import Boxes, Floats, Places
from gsvc.datasets.clips.clip import TestClip
from gsvc.datasets.clips.clip_reader import load_clip, protocol_size, resized, short_side


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
        raise InputError(
            f"{path}:{error.lineno}:{error.colno}: no JSON ({error.msg}): download the file again"
        ) from error


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
        _check(frames)
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
    """Of the clip, usable as a file name."""
    video: Path = field(repr=False)
    truth: Boxes = field(repr=False)
    """In pixels of the file."""

    def load(self, size: str = "native", frames: int | None = None) -> tuple[TestClip, Boxes]:
        """As of `AnnotatedClip`. Raises InputError for what is no video, ConfigError."""
        _check(frames)
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


def _check(frames: int | None) -> None:
    if frames is not None and frames < 1:
        raise ConfigError(f"frames {frames}: must be 1 or more")


def _sized(clip: TestClip, truth: Boxes, size: str) -> tuple[TestClip, Boxes]:
    """Pictures and truth at a size of the evaluation protocol."""
    height, width = clip.frames[0].shape[:2]
    across, down = protocol_size(width, height, short_side(size))
    pictures = [resized(one, across, down) for one in clip.frames]
    shown = truth.chosen(truth.frame < len(pictures))
    sized = TestClip(clip.name, pictures, clip.frame_rate)
    return sized, shown.scaled(across / width, down / height)


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
