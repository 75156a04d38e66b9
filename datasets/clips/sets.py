"""Finding test clips by name: known sets, and a user's files and folders. Never train on the sets.

`packaged` and `locked` come from public packages, `synthetic` from code; `uvg`, `mcl-jcv`, `hevc-b`
and `hevc-c` from the user's copies (`published_sets.py`). `uvg/Beauty` is one clip of a set.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.video_source import VIDEO_SUFFIXES
from gsvc.codec.weights.model_files import PackagedFile
from gsvc.datasets.clips import clip_reader, packaged
from gsvc.datasets.clips.published_sets import MANIFESTS, load_sequence
from gsvc.datasets.clips.synthetic_clips import FRAME_RATE, FRAMES, HEIGHT, SCENES, WIDTH, DrawnClip

Reader = Callable[[int | None, int | None], tuple[list[Picture], Fraction]]
"""From a number of frames (None: all) and a short side (None: its own) to pictures and rate."""

SETS = ("packaged", "locked", *MANIFESTS, "synthetic")

_BY_NAME: dict[str, Mapping[str, PackagedFile | DrawnClip]] = {
    "packaged": packaged.CLIPS,
    "locked": packaged.LOCKED,
    "synthetic": SCENES,
}

USER_SET = "user"
"""Set of the clips that are a user's files."""

_STREAM_SUFFIXES = {".ivf", ".obu", ".h264", ".264", ".h265", ".265", ".hevc"}
_SUFFIXES = clip_reader.RAW_SUFFIXES | VIDEO_SUFFIXES | _STREAM_SUFFIXES
_LONGEST_NAME = 80


@dataclass(frozen=True)
class ClipSource:
    """A clip to load; its file may be missing. It can be pickled."""

    name: str
    """Unique among those found together, and usable as a file name."""
    set: str
    description: str
    read: Reader = field(repr=False, compare=False)
    """Equal sources come back from another process with a reader of their own."""

    def load(self, size: str = "288", frames: int | None = 97) -> clip_reader.TestClip:
        """The first `frames` frames (None: all) at a size of the evaluation protocol.

        `size` is "288" or "480", the short side in pixels, or "native". Raises InputError when the
        clip is missing or cannot be read, ConfigError for another size and for `frames` below 1.
        """
        clip_reader.check_frames(frames)
        pictures, frame_rate = self.read(frames, clip_reader.short_side(size))
        if not pictures:
            raise InputError(f"{self.name}: has no frame: check the file")
        return clip_reader.TestClip(self.name, pictures, frame_rate)


def find_clips(names: Sequence[str]) -> list[ClipSource]:
    """The clips of sets ("packaged"), members ("uvg/Beauty"), folders and files, each once.

    A folder gives its videos and its subfolders of images, sorted by name. Only `load` opens files.
    Raises ConfigError for a name of nothing, InputError for a folder without videos.
    """
    found: dict[tuple[str, str], ClipSource] = {}
    for key, source in (pair for name in names for pair in _sources(name)):
        found.setdefault(key, source)
    return _with_unique_names(list(found.values()))


def _sources(name: str) -> Iterator[tuple[tuple[str, str], ClipSource]]:
    """The clips of one name, each after the key of its identity."""
    known_set, _, member = name.partition("/")
    if known_set.lower() in SETS:
        for source in _of_set(known_set.lower(), member):
            yield (source.set, source.name), source
    elif Path(os.path.expanduser(name)).exists():
        for path in _user_paths(name):
            yield ("", str(path.resolve())), _user(path)
    else:
        clips = {one.name.lower(): f"{one.set}/{one.name}" for one in find_clips(SETS)}
        meant = [f"did you mean {clips[near]}? " for near in get_close_matches(name, clips, 1)]
        told = f"{''.join(meant)}sets are {', '.join(SETS)}, clips those of gsvc bench list clips"
        raise ConfigError(f"{name}: no such set, folder or file of clips: {told}")


def _of_set(name: str, member: str) -> list[ClipSource]:
    if manifest := MANIFESTS.get(name):
        return [
            ClipSource(one.name, name, one.description, partial(load_sequence, manifest, one))
            for one in ([manifest.sequence(member)] if member else manifest.sequences)
        ]
    clips = _BY_NAME[name]
    if member and member not in clips:
        raise ConfigError(f"{name} has no clip {member!r}; there are {', '.join(clips)}")
    read = _read_scene if name == "synthetic" else _read_packaged
    return [
        ClipSource(one, name, clips[one].description, partial(read, one))
        for one in ([member] if member else clips)
    ]


def _user_paths(name: str) -> list[Path]:
    path = Path(os.path.expanduser(name))
    if path.suffix.lower() in (".csv", ".txt"):
        raise InputError(f"{path}: lists of clips are not read: give the clips, or their folder")
    if not path.is_dir():
        return [path]
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    clips = [one for one in inside if _is_clip(one)]
    if clips:
        return clips
    if clip_reader.image_suffix(path):
        return [path]
    raise InputError(f"{path}: no video and no images in this folder: choose another")


def _is_clip(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    try:
        if path.is_dir():
            return bool(clip_reader.image_suffix(path))
        return path.suffix.lower() in _SUFFIXES
    except InputError:
        return True  # a folder that cannot be read: loading it tells why


def _user(path: Path) -> ClipSource:
    stem = path.resolve().name if path.is_dir() else path.stem
    name = re.sub(r"[^\w.-]+", "-", stem).strip("-.")[:_LONGEST_NAME] or "clip"
    return ClipSource(name, USER_SET, str(path), partial(clip_reader.load_clip, path))


def _with_unique_names(sources: list[ClipSource]) -> list[ClipSource]:
    """Number a user's clips of equal names, from 2 on; clips of sets keep their names."""
    taken = {source.name.lower() for source in sources if source.set != USER_SET}
    unique = []
    for source in sources:
        name, number = source.name, 1
        while source.set == USER_SET and name.lower() in taken:
            number += 1
            name = f"{source.name}-{number}"
        taken.add(name.lower())
        unique.append(replace(source, name=name))
    return unique


def _read_packaged(
    name: str, frames: int | None, short_side: int | None
) -> tuple[list[Picture], Fraction]:
    return clip_reader.load_clip(packaged.packaged_clip(name), frames, short_side)


def _read_scene(
    name: str, frames: int | None, short_side: int | None
) -> tuple[list[Picture], Fraction]:
    count = FRAMES if frames is None else min(frames, FRAMES)
    size, drawn = clip_reader.protocol_size(WIDTH, HEIGHT, short_side), SCENES[name]
    return [clip_reader.resized(drawn.frame(n), *size) for n in range(count)], FRAME_RATE
