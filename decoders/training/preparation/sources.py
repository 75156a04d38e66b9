"""Where video comes from, and its clips.

Sources are folders, lists, tar files and whatever fsspec reaches. One pass over a source finds its
clips. They are read again when they are coded.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import dropwhile, islice
from pathlib import PurePosixPath
from typing import Any

import av
import fsspec
import numpy as np
from av import VideoFrame
from av.container import InputContainer
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import protocol_size
from gsvc.decoders.training.footage import CLIP_SUFFIXES
from gsvc.encoders.coding.group_coder import CutDetector

_LIST, _TAR = ".txt", ".tar"
_CHUNK = 1 << 20
_MOST_PIXELS = 1 << 26


def find_sources(given: Sequence[str]) -> list[str]:
    """Addresses of all videos that `given` names, sorted, each once.

    `given`: folders, videos, tar files and lists (.txt, an address a line), all of them local or
    URLs. Raises InputError for what is not there, and where no video is.
    """
    found = {address for one in given for address in _found(one)}
    if not found:
        raise InputError(f"no videos in {' '.join(given)}: name folders, lists or tar files")
    return sorted(found)


def _found(given: str) -> Iterator[str]:
    suffix = PurePosixPath(given).suffix.lower()
    try:
        system, path = fsspec.core.url_to_fs(given)
        if system.isdir(path):
            for each in system.find(path):
                if _is(each, CLIP_SUFFIXES):
                    yield _address(system, each)
                elif _is(each, {_TAR}):
                    yield from _members(_address(system, each))
        elif not system.exists(path):
            raise InputError(f"{given} is not there: name a folder, a video, a list or a tar file")
        elif suffix == _LIST:
            with system.open(path, "rt", encoding="utf-8") as file:
                for line in map(str.strip, file):
                    yield from _found(line) if line and not line.startswith("#") else ()
        elif suffix == _TAR:
            yield from _members(given)
        else:
            yield given
    except (ImportError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{given} cannot be looked into: {error}") from error


def _address(system: Any, path: str) -> str:
    return str(path if "file" in system.protocol else system.unstrip_protocol(path))


def _members(tar: str) -> Iterator[str]:
    """Videos in a tar file; a damaged one is a source that cannot be read."""
    try:
        names = fsspec.filesystem("tar", fo=tar).find("")
    except Exception:  # noqa: BLE001 - tarfile raises many; the survey says which
        yield tar
        return
    yield from (f"tar://{name}::{tar}" for name in names if _is(name, CLIP_SUFFIXES))


def _is(path: str, suffixes: set[str] | frozenset[str]) -> bool:
    return PurePosixPath(path).suffix.lower() in suffixes


def sha256_at(address: str) -> tuple[str, int]:
    """SHA-256 and bytes of a source."""
    digest, size = hashlib.sha256(), 0
    with fsspec.open(address, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


@contextmanager
def opened_video(address: str) -> Iterator[InputContainer]:
    """A source as video. Raises InputError where it is none, or of no sensible size."""
    with ExitStack() as stack:
        try:
            file = address if "://" not in address else stack.enter_context(fsspec.open(address))
            container = stack.enter_context(av.open(file))
            stream = container.streams.video[0]
        except (av.FFmpegError, IndexError, OSError) as error:
            raise InputError(f"cannot be read as video ({error})") from error
        if not 0 < stream.width * stream.height <= _MOST_PIXELS:
            raise InputError(f"frames of {stream.width}x{stream.height} are no video's")
        stream.thread_count = 1  # Ray spreads the work, and says on how many cores
        yield container


NO_TIME = -1
_REACHED_BACK = 2
"""Frames before a clip to which a reader seeks: some containers round their index."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Consecutive frames of a source, without a cut."""

    address: str
    sha256: str
    """Of the source."""
    number: int
    """Of the first frame, from 0."""
    pts: int
    """Its time, in units of the stream; `NO_TIME` where times had not risen up to it."""
    rate: float
    """Frames a second."""

    @property
    def key(self) -> str:
        """A name for it, the same wherever the source lies."""
        return f"{self.sha256[:16]}-{self.number:06d}"


def scenes(address: str, lines: int, frames: int) -> Iterator[tuple[int, int, list[Picture]]]:
    """Every run of so many frames without a cut: number and time of the first one (see `Clip`), the
    frames.

    Raises InputError where the source is damaged or has fewer lines.
    """
    run: list[tuple[int, int, Picture]] = []
    is_cut, latest = CutDetector(), NO_TIME
    with opened_video(address) as container:
        size = _size(container, lines)
        for number, (pts, frame) in enumerate(_frames(container)):
            picture = _picture(frame, size)
            if is_cut(picture):
                run = []
            # Not every writer knows what B-frames are: a frame may have the time of another one.
            run.append((number, pts if pts > latest else NO_TIME, picture))
            latest = max(latest, pts)
            if len(run) == frames:
                yield run[0][0], run[0][1], [each for _, _, each in run]
                run = []


def frame_rate(address: str) -> float:
    """Frames a second of a source, 25 where it does not say."""
    with opened_video(address) as container:
        return float(container.streams.video[0].average_rate or 25)


def read_clip(clip: Clip, lines: int, frames: int) -> list[Picture]:
    """The frames of a clip, RGB uint8 (H, W, 3). Raises InputError where they are not there.

    The first one is found by its time, near where a reader seeks to; where it is not found so, by
    its number, from the start. Those that follow it are the others, whatever their times.
    """
    with opened_video(clip.address) as container:
        stream, size = container.streams.video[0], _size(container, lines)
        if clip.number and clip.pts != NO_TIME:
            back = round(_REACHED_BACK / clip.rate / float(stream.time_base or 1 / clip.rate))
            container.seek(max(0, clip.pts - back), stream=stream)
            from_it = dropwhile(lambda each: each[0] != clip.pts, _frames(container))
            if pictures := [_picture(frame, size) for _, frame in islice(from_it, frames)]:
                return _whole(pictures, clip, frames)
    with opened_video(clip.address) as container:
        counted = islice(_frames(container), clip.number, clip.number + frames)
        return _whole([_picture(frame, size) for _, frame in counted], clip, frames)


def _whole(pictures: list[Picture], clip: Clip, frames: int) -> list[Picture]:
    if len(pictures) < frames:
        raise InputError(f"ends within frames {clip.number} to {clip.number + frames}")
    return pictures


def _size(container: InputContainer, lines: int) -> tuple[int, int]:
    """Width and height to which frames are scaled."""
    stream: VideoStream = container.streams.video[0]
    if min(stream.width, stream.height) < lines:
        raise InputError(f"has {min(stream.width, stream.height)} lines: {lines} are asked for")
    return protocol_size(stream.width, stream.height, lines)


def _frames(container: InputContainer) -> Iterator[tuple[int, VideoFrame]]:
    """Time and content of frames, in the order in which they are shown."""
    try:
        for frame in container.decode(container.streams.video[0]):
            if frame.pts is None:
                raise InputError("has frames without a time")
            yield frame.pts, frame
    except (av.FFmpegError, OSError) as error:
        raise InputError(f"is damaged ({error})") from error


def _picture(frame: VideoFrame, size: tuple[int, int]) -> Picture:
    shrunk = frame.reformat(*size, format="rgb24", interpolation=Interpolation.AREA)
    return np.asarray(shrunk.to_ndarray(), np.uint8)
