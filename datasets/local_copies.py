"""The user's copies of published test sets: finding the file of a sequence and reading it.

Copies lie anywhere below `$GSVC_DATASETS`, else below `datasets` in gsvc's cache folder: raw YUV,
y4m or a folder of images, whose name begins with the sequence's. Coded files are ignored.
"""

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.codec.media.video_reader import open_video
from gsvc.datasets.clip_reader import image_pattern, image_suffix, load_clip
from gsvc.datasets.manifests import Manifest, Sequence
from gsvc.datasets.package_files import cache_dir
from gsvc.datasets.raw_format import (
    RawFormat,
    bit_depth_from_name,
    chroma_from_name,
    rate_from_name,
    size_from_name,
)
from gsvc.datasets.raw_video import RAW_SUFFIXES

_SUFFIXES = (*sorted(RAW_SUFFIXES), ".y4m")


def datasets_dir() -> Path:
    """The folder of the user's copies: `$GSVC_DATASETS`, else `datasets` in the cache folder."""
    if own := os.environ.get("GSVC_DATASETS"):
        return Path(own).expanduser()
    return cache_dir() / "datasets"


def load_sequence(
    manifest: Manifest,
    sequence: Sequence,
    root: Path | None,
    frames: int | None,
    short_side: int | None,
) -> tuple[list[Picture], Fraction]:
    """The sequence from its copy below `root` (None: `datasets_dir()`), see `load_clip`.

    Raises InputError when there is no copy, or it cannot be read or has another size.
    """
    path = find_copy(manifest, sequence, root)
    if path.suffix.lower() in RAW_SUFFIXES and not path.is_dir():
        return load_clip(path, frames, short_side, _raw_format(path, sequence))
    _check_size(path, sequence)
    pictures, rate = load_clip(path, frames, short_side)
    return pictures, sequence.frame_rate if path.is_dir() else rate


def find_copy(manifest: Manifest, sequence: Sequence, root: Path | None) -> Path:
    """The copy to read: by the order of the sequence's sizes, 8 bits before 10, raw before y4m
    before images. Raises InputError when there is none."""
    folder = root or datasets_dir()
    named = [path for path in _candidates(folder) if _is_called(path, sequence)]
    fitting = [path for path in named if _fits(path, sequence)]
    if fitting:
        return min(fitting, key=lambda path: _preference(path, sequence))
    width, height = sequence.sizes[0]
    other = f" ({named[0].name} is of another size or rate)" if named else ""
    raise InputError(
        f"{manifest.name}/{sequence.name}: no copy of {width}x{height} in {folder}{other}: "
        f"get it from {manifest.page}, put {sequence.file_name} (or y4m) there, or name your "
        "folder in GSVC_DATASETS"
    )


def _candidates(root: Path) -> Iterator[Path]:
    """Video files and folders below `root`, links followed, each folder once."""
    seen: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        paths = (Path(folder, name) for name in files)
        yield from (path for path in paths if path.suffix.lower() in _SUFFIXES)
        yield from (Path(folder, name) for name in folders)


def _is_called(path: Path, sequence: Sequence) -> bool:
    names = "|".join(re.escape(name) for name in sequence.names)
    if not re.match(rf"(?:{names})(?![A-Za-z0-9])", path.name, re.IGNORECASE):
        return False
    return path.suffix.lower() in _SUFFIXES or (path.is_dir() and image_suffix(path) is not None)


def _fits(path: Path, sequence: Sequence) -> bool:
    """Whether size and rate in the name, if any, are the sequence's."""
    size, rate = size_from_name(path.stem), rate_from_name(path.stem)
    return size in (None, *sequence.sizes) and rate in (None, sequence.frame_rate)


def _preference(path: Path, sequence: Sequence) -> tuple[int, int, int, str]:
    size = size_from_name(path.stem)
    kind = path.suffix.lower()
    return (
        sequence.sizes.index(size) if size else len(sequence.sizes),
        bit_depth_from_name(path.stem) or 8,
        _SUFFIXES.index(kind) if kind in _SUFFIXES else len(_SUFFIXES),
        str(path),
    )


def _raw_format(path: Path, sequence: Sequence) -> RawFormat:
    size = size_from_name(path.stem)
    if size is None and len(sequence.sizes) > 1:
        sizes = " or ".join(f"{width}x{height}" for width, height in sequence.sizes)
        raise InputError(f"{path}: its name tells no size: put {sizes} into its name")
    return RawFormat(
        *(size or sequence.sizes[0]),
        sequence.frame_rate,
        bit_depth_from_name(path.stem) or 8,
        chroma_from_name(path.stem) or "420",
    )


def _check_size(path: Path, sequence: Sequence) -> None:
    with open_video(image_pattern(path) if path.is_dir() else path, frames=1) as video:
        size = video.format.width, video.format.height
    if size not in sequence.sizes:
        sizes = " or ".join(f"{width}x{height}" for width, height in sequence.sizes)
        raise InputError(
            f"{path}: has {size[0]}x{size[1]}, but {sequence.name} has {sizes}: take the original"
        )
