"""Published test sets: names, sizes, rates and lengths of their sequences. Never train on them.

The user's own copies are read: the file of a sequence is found by its name.

`published_sets.toml` has the sets and their sources.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.weights.model_files import cache_dir
from gsvc.datasets.clips import clip_reader


class PublishedSequence(NamedTuple):
    """One test sequence, 4:2:0."""

    name: str
    sizes: tuple[tuple[int, int], ...]
    """Widths and heights that it is distributed in, the usual one first."""
    frame_rate: Fraction
    """Frames per second."""
    frames: int | None
    """Its length; None if unknown."""
    file_name: str
    """Usual name of a copy."""
    other_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a copy may begin with."""
        return self.name, *self.other_names

    @property
    def description(self) -> str:
        """Size, rate and length in words."""
        width, height = self.sizes[0]
        length = "" if self.frames is None else f", {self.frames} frames"
        return f"{width}x{height}, {float(self.frame_rate):g} fps{length}"


class PublishedSet(NamedTuple):
    """One test set."""

    name: str
    page: str
    """Address that tells how to get it."""
    sequences: tuple[PublishedSequence, ...]

    def sequence(self, name: str) -> PublishedSequence:
        """The sequence of that name in any case. Raises ConfigError for an unknown name."""
        for sequence in self.sequences:
            if name.lower() in {own.lower() for own in sequence.names}:
                return sequence
        known = ", ".join(sequence.name for sequence in self.sequences)
        raise ConfigError(f"{self.name} has no sequence {name!r}; there are {known}")


def _listed() -> Iterator[PublishedSet]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    for name, row in rows.items():
        sizes = tuple((width, height) for width, height in row["sizes"])
        shape = {"width": sizes[0][0], "height": sizes[0][1]}
        sequences = (
            PublishedSequence(
                *(one, sizes, Fraction(rate), frames or None),
                row["file"].format(name=one, rate=rate, **shape),
                tuple(others),
            )
            for one, rate, frames, *others in row["sequences"]
        )
        yield PublishedSet(name, row["page"], tuple(sequences))


MANIFESTS = {one.name: one for one in _listed()}

_SUFFIXES = (*sorted(clip_reader.RAW_SUFFIXES), ".y4m")


def datasets_dir() -> Path:
    """The folder of the user's copies: `$GSVC_DATASETS`, else `datasets` in the cache folder."""
    if own := os.environ.get("GSVC_DATASETS"):
        return Path(os.path.expanduser(own))
    return cache_dir() / "datasets"


def load_sequence(
    manifest: PublishedSet, sequence: PublishedSequence, frames: int | None, short_side: int | None
) -> tuple[list[Picture], Fraction]:
    """The sequence from its copy below `datasets_dir()`, see `load_clip`.

    Raises InputError when there is no copy, or it cannot be read or has another size.
    """
    path = find_copy(manifest, sequence)
    if path.suffix.lower() in clip_reader.RAW_SUFFIXES and not path.is_dir():
        return clip_reader.load_clip(path, frames, short_side, _raw_format(path, sequence))
    with open_video(clip_reader.image_pattern(path) if path.is_dir() else path, frames=1) as video:
        size = video.format.width, video.format.height
    if size not in sequence.sizes:
        raise InputError(
            f"{path}: has {size[0]}x{size[1]}, but {sequence.name} has {_sizes(sequence)}: "
            "take the original"
        )
    pictures, rate = clip_reader.load_clip(path, frames, short_side)
    return pictures, sequence.frame_rate if path.is_dir() else rate


def _sizes(sequence: PublishedSequence) -> str:
    return " or ".join(f"{width}x{height}" for width, height in sequence.sizes)


def find_copy(manifest: PublishedSet, sequence: PublishedSequence) -> Path:
    """The copy to read: by the order of the sequence's sizes, 8 bits before 10, raw before y4m
    before images. Raises InputError when there is none."""
    folder = datasets_dir()
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


def _is_called(path: Path, sequence: PublishedSequence) -> bool:
    names = "|".join(re.escape(name) for name in sequence.names)
    if not re.match(rf"(?:{names})(?![A-Za-z0-9])", path.name, re.IGNORECASE):
        return False
    return path.suffix.lower() in _SUFFIXES or (
        path.is_dir() and clip_reader.image_suffix(path) is not None
    )


def _fits(path: Path, sequence: PublishedSequence) -> bool:
    """Whether size and rate in the name, if any, are the sequence's."""
    size, rate = clip_reader.size_from_name(path.stem), clip_reader.rate_from_name(path.stem)
    return size in (None, *sequence.sizes) and rate in (None, sequence.frame_rate)


def _preference(path: Path, sequence: PublishedSequence) -> tuple[int, int, int, str]:
    size = clip_reader.size_from_name(path.stem)
    kind = path.suffix.lower()
    return (
        sequence.sizes.index(size) if size else len(sequence.sizes),
        clip_reader.bit_depth_from_name(path.stem) or 8,
        _SUFFIXES.index(kind) if kind in _SUFFIXES else len(_SUFFIXES),
        str(path),
    )


def _raw_format(path: Path, sequence: PublishedSequence) -> clip_reader.RawFormat:
    size = clip_reader.size_from_name(path.stem)
    if size is None and len(sequence.sizes) > 1:
        raise InputError(f"{path}: its name tells no size: put {_sizes(sequence)} into its name")
    return clip_reader.RawFormat(
        *(size or sequence.sizes[0]),
        sequence.frame_rate,
        clip_reader.bit_depth_from_name(path.stem) or 8,
        clip_reader.chroma_from_name(path.stem) or "420",
    )
