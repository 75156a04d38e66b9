"""Where video comes from, its clips, and which of them are taken.

Sources are folders, lists, tar files and whatever fsspec reaches. One pass over a source finds its
clips. They are read again when they are coded. Clips are measured; limits decide which are taken,
and no two that show the same are.
"""

import hashlib
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import dropwhile, islice
from pathlib import PurePosixPath
from typing import Any

import av
import cv2
import fsspec
import numpy as np
from av.container import InputContainer
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.video_source import VIDEO_SUFFIXES
from gsvc.datasets.clips.clip_reader import protocol_size
from gsvc.decoders.detection.people import SingleShotDetector
from gsvc.decoders.interpolation.optical_flow import dense_flow, gray
from gsvc.encoders.coding.cuts import CutDetector
from gsvc.encoders.face_landmarks import FACE_MODEL, FACE_STRIDES

MEASURES = {
    "motion": "mean displacement, in pixels a frame at the prepared size",
    "sharpness": "variance of the Laplacian of luma",
    "luma": "mean level, 0 to 255",
    "clipped": "share of pixels that are black or white",
    "letterbox": "share of the picture in black borders",
    "text": "share of the picture in what looks like lines of text",
    "faces": "most faces in a frame",
}
"""Measures of a clip that `Limits` are for, and their units."""

Limits = Mapping[str, tuple[float, float]]
"""Least and most of measures, by name."""

USUAL_LIMITS: dict[str, tuple[float, float]] = {
    "motion": (0.05, 40.0),
    "sharpness": (15.0, math.inf),
    "luma": (16.0, 239.0),
    "clipped": (0.0, 0.5),
    "letterbox": (0.0, 0.02),
    "text": (0.0, 0.2),
}


@dataclass(frozen=True)
class Settings:
    """How sources become samples."""

    kind: str = "pictures"
    lines: int = 288
    """Short side of the pictures that are coded; smaller sources are set aside."""
    frames: int = 33
    """Of a clip; a scene gives as many clips as it holds."""
    most_clips: int = 64
    """Of one source, spread over it."""
    lambdas: tuple[float, ...] = (300.0, 90.0, 30.0, 9.0)
    """Every clip is encoded with each."""
    preset: str = "fast"
    extract: tuple[str, ...] = ("masks", "pose", "faces", "flow")
    limits: dict[str, tuple[float, float]] = field(default_factory=lambda: dict(USUAL_LIMITS))
    nearest: int = 11
    """Bits of 192 in which clips may differ and still count as the same."""
    shard_clips: int = 64
    seed: int = 0


def read_limits(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The usual limits, those of `texts` (NAME=LEAST:MOST) in their place. Raises ConfigError."""
    limits = dict(USUAL_LIMITS)
    for text in texts:
        name, _, ends = text.partition("=")
        least, colon, most = ends.partition(":")
        if name not in MEASURES or not colon:
            raise ConfigError(
                f"limit {text!r}: write NAME=LEAST:MOST, either may be left out; NAME is one of "
                f"{', '.join(MEASURES)}"
            )
        try:
            limits[name] = float(least or -math.inf), float(most or math.inf)
        except ValueError as error:
            raise ConfigError(f"limit {text!r}: {error}") from error
    return limits


_LIST, _TAR = ".txt", ".tar"
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
                if _is(each, VIDEO_SUFFIXES):
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
    yield from (f"tar://{name}::{tar}" for name in names if _is(name, VIDEO_SUFFIXES))


def _is(path: str, suffixes: set[str] | frozenset[str]) -> bool:
    return PurePosixPath(path).suffix.lower() in suffixes


def sha256_at(address: str) -> tuple[str, int]:
    """SHA-256 and bytes of a source."""
    with fsspec.open(address, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()


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
    """Every run of so many frames without a cut: number and time of the first (`Clip`), frames.

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
    stream: VideoStream = container.streams.video[0]
    if min(stream.width, stream.height) < lines:
        raise InputError(f"has {min(stream.width, stream.height)} lines: {lines} are asked for")
    return protocol_size(stream.width, stream.height, lines)


def _frames(container: InputContainer) -> Iterator[tuple[int, av.VideoFrame]]:
    try:
        for frame in container.decode(container.streams.video[0]):
            if frame.pts is None:
                raise InputError("has frames without a time")
            yield frame.pts, frame
    except (av.FFmpegError, OSError) as error:
        raise InputError(f"is damaged ({error})") from error


def _picture(frame: av.VideoFrame, size: tuple[int, int]) -> Picture:
    shrunk = frame.reformat(*size, format="rgb24", interpolation=Interpolation.AREA)
    return np.asarray(shrunk.to_ndarray(), np.uint8)


_BLACK, _WHITE, _BORDER = 2, 253, 24
"""Levels; of a border no pixel is brighter in any frame."""
_HASHED, _KEPT = 32, 8
"""Sides of the picture whose DCT is taken, and of the low frequencies that count."""
_SURE_FACE = 0.75
_STROKE, _LETTERS = 0.3, (17, 3)
"""Of text: share of the strongest possible gradient; width and height that close gaps of words."""
_TEXT_SHAPE = 2.5, 0.35, 5
"""Least width for its height, least share of strokes, least height of a line of text."""


def measures(frames: Sequence[Picture]) -> dict[str, float]:
    """Those of `settings.MEASURES`, of frames in RGB uint8 (H, W, 3)."""
    looked = [frames[0], frames[len(frames) // 2], frames[-1]]
    lumas = [gray(frame) for frame in looked]
    middle = len(frames) // 2
    pairs = [(frames[n], frames[n + 1]) for n in (0, middle - 1, len(frames) - 2)]
    return {
        "motion": float(np.mean([_motion(*pair) for pair in pairs])),
        "sharpness": float(np.median([cv2.Laplacian(y, cv2.CV_32F).var() for y in lumas])),
        "luma": float(np.mean(lumas)),
        "clipped": float(np.mean([(y <= _BLACK) | (y >= _WHITE) for y in lumas])),
        "letterbox": _letterbox(np.max(lumas, 0)),
        "text": float(np.mean([_text(y) for y in lumas])),
        "faces": float(max(len(_faces()(frame)) for frame in looked)),
    }


def _motion(one: Picture, other: Picture) -> float:
    flow = dense_flow(gray(one), gray(other), cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    return float(np.linalg.norm(flow, axis=2).mean())


def _letterbox(brightest: NDArray[np.uint8]) -> float:
    lit = brightest >= _BORDER
    rows, columns = np.flatnonzero(lit.any(1)), np.flatnonzero(lit.any(0))
    if not len(rows):
        return 1.0
    inner = int(rows[-1] - rows[0] + 1) * int(columns[-1] - columns[0] + 1)
    return 1 - inner / brightest.size


def _text(luma: NDArray[np.uint8]) -> float:
    """Share of the picture in flat, wide boxes full of strokes: morphological gradient, then
    closing. It finds captions and titles; rows of windows or leaves may look alike."""
    small = np.ones((3, 3), np.uint8)
    strokes = cv2.morphologyEx(luma, cv2.MORPH_GRADIENT, small) > 255 * _STROKE
    mask = strokes.astype(np.uint8)
    joined = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones(_LETTERS[::-1], np.uint8))
    _, _, boxes, _ = cv2.connectedComponentsWithStats(joined)
    wide, full, high = _TEXT_SHAPE
    area = 0
    for left, top, width, height, _ in boxes[1:]:
        inside = mask[top : top + height, left : left + width]
        if height >= high and width >= wide * height and inside.mean() > full:
            area += width * height
    return float(area / luma.size)


@cache
def _faces() -> SingleShotDetector:
    return SingleShotDetector(FACE_MODEL, FACE_STRIDES, _SURE_FACE)


def clip_hash(frames: Sequence[Picture]) -> int:
    """192 bits: those of the first, the middle and the last frame.

    Of each the signs of the 64 lowest frequencies about their median (C. Zauner, "Implementation
    and Benchmarking of Perceptual Image Hash Functions", 2010): coding and scaling change few.
    """
    value = 0
    for frame in (frames[0], frames[len(frames) // 2], frames[-1]):
        small = cv2.resize(gray(frame), (_HASHED, _HASHED), interpolation=cv2.INTER_AREA)
        low = cv2.dct(small.astype(np.float32))[:_KEPT, :_KEPT].ravel()
        bits = low > np.median(low[1:])
        value = value << 64 | int.from_bytes(np.packbits(bits).tobytes())
    return value


HASH_BITS = 192
_BANDS = 12
"""Clips that differ in at most 11 bits agree in one of 12 bands: only such are compared."""
_BAND_BITS = HASH_BITS // _BANDS
_BAND_MASK = (1 << _BAND_BITS) - 1


@dataclass(frozen=True, slots=True)
class Found:
    """A clip that the survey found."""

    clip: Clip
    measures: dict[str, float]
    hash: int


def outside(found: Found, settings: Settings) -> str:
    """Why a clip is outside the limits; "" where it is within."""
    for name, (least, most) in settings.limits.items():
        value = found.measures[name]
        if not least <= value <= most:
            return f"{name} {value:.3g} is not within {least:g} to {most:g}"
    return ""


def chosen(clips: Iterable[Found], settings: Settings) -> tuple[list[Found], dict[str, str]]:
    """Clips to take, in the order given, and for the key of each other one the reason.

    Of the clips only those that are taken are kept in memory.
    """
    taken: list[Found] = []
    reasons: dict[str, str] = {}
    bands: dict[int, array[int]] = {}
    for found in clips:
        why = outside(found, settings)
        each = range(_BANDS)
        own = [b << _BAND_BITS | found.hash >> b * _BAND_BITS & _BAND_MASK for b in each]
        same = None
        if not why:
            numbers = {number for key in own for number in bands.get(key, ())}
            alike = [taken[number] for number in sorted(numbers)]
            same = min(alike, key=lambda other: _distance(other, found), default=None)
        if same and same.clip.key == found.clip.key:
            continue  # the very file, at another address
        if same and _distance(same, found) <= settings.nearest:
            why = f"shows the same as {same.clip.key}"
        if why:
            reasons[found.clip.key] = why
            continue
        for key in own:
            bands.setdefault(key, array("I")).append(len(taken))
        taken.append(found)
    return taken, reasons


def _distance(one: Found, other: Found) -> int:
    return (one.hash ^ other.hash).bit_count()
