"""Two videos, frame beside frame: those that are shown at the same time."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from gsvc.codec.decoder import Decoder
from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture, VideoFormat
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.stream.file import SUFFIX, open_stream
from gsvc.codec.stream.index import StreamIndex
from gsvc.datasets.clips import TestClip
from gsvc.eval.codecs.scaling import enlarge, shrink


@dataclass(frozen=True)
class Pair:
    """The frames that two videos share, in memory."""

    source: TestClip = field(repr=False)
    """What is measured against."""
    test: Sequence[Picture] = field(repr=False)
    """As many pictures of the same size."""
    times: Sequence[float]
    """Seconds after the source's first frame."""
    alone: tuple[int, int]
    """Frames of the source and of the test that have no partner."""


@dataclass(frozen=True)
class Video:
    """A video in memory."""

    name: str
    """What messages call it."""
    format: VideoFormat
    """Size and rate."""
    frames: list[Picture] = field(repr=False)
    """In order."""
    times: list[Fraction]
    """Seconds."""


def read_pair(source: str, test: str, *, frames: int | None = None, scale: bool = False) -> Pair:
    """Read two videos; each begins at time 0. Frames pair by time, each with the nearest.

    Args:
        source: What is measured against: anything FFmpeg reads, or a glob of images.
        test: The same, or a stream (.gsv), which is decoded as `gsvc decode` does by default.
        frames: Most frames of each to read; None for all.
        scale: Bring the test's pictures to the source's size.

    Raises:
        InputError: A video cannot be read, the sizes differ, or no frames are shown together.
        ConfigError: `frames` is below 1.
    """
    a = _read(source, frames)  # first: decoding takes long, and a wrong name is soon told
    b = _decoded(test, frames) if test.lower().endswith(SUFFIX) else _read(test, frames)
    return pair_of(a, b, scale=scale)


def pair_of(a: Video, b: Video, *, scale: bool = False) -> Pair:
    """The frames that two videos share. Raises InputError as `read_pair` does."""
    _check_sizes(a, b, scale)
    pairs = _nearest(a, b)
    if not pairs:
        raise InputError(f"no frame of {b.name} is shown when one of {a.name} is: check the times")
    size = a.format.width, a.format.height
    clip = TestClip(a.name, [a.frames[i] for i, _ in pairs], a.format.frame_rate)
    return Pair(
        clip,
        [_fitted(b.frames[j], size) for _, j in pairs],
        [float(a.times[i]) for i, _ in pairs],
        (len(a.frames) - len(pairs), len(b.frames) - len(pairs)),
    )


def _read(name: str, frames: int | None) -> Video:
    if name.lower().endswith(SUFFIX):
        raise InputError(f"{name} is a stream, and what is measured against is a video: swap them")
    with open_video(name, frames=frames) as video:
        found = [(frame.pixels, frame.pts * video.format.time_base) for frame in video]
        return Video(name, video.format, [p for p, _ in found], [t for _, t in found])


def _decoded(name: str, frames: int | None) -> Video:
    with open_stream(name) as file:
        index = StreamIndex(file)
        return decoded_part(name, index, 0, index.frames if frames is None else frames)


def decoded_part(name: str, index: StreamIndex, first: int, count: int) -> Video:
    """Frames of a stream, decoded by one step of the default refiner, with their own times."""
    form = index.header.format
    with Decoder(index.header) as decoder:
        found = list(index.decode(decoder, first, count))
    origin = index.times[0] if index.times else 0
    times = [(frame.pts - origin) * form.time_base for frame in found]
    return Video(name, form, [frame.pixels for frame in found], times)


def _check_sizes(a: Video, b: Video, scale: bool) -> None:
    wanted, got = (f"{v.format.width}x{v.format.height}" for v in (a, b))
    if wanted != got and not scale:
        raise InputError(
            f"{b.name} is {got}, but {a.name} is {wanted}: "
            f"scale=True measures the former at {wanted}"
        )


def _nearest(a: Video, b: Video) -> list[tuple[int, int]]:
    """Indices of the frames that are each other's nearest, less than half a frame apart."""
    most = 1 / max(a.format.frame_rate, b.format.frame_rate) / 2
    pairs = []
    for i, time in enumerate(a.times):
        j = _place(b.times, time)
        if _place(a.times, b.times[j]) == i and abs(b.times[j] - time) < most:
            pairs.append((i, j))
    return pairs


def _place(times: Sequence[Fraction], time: Fraction) -> int:
    """The index of the nearest of the ascending `times`; the earlier one of two."""
    after = bisect_left(times, time)
    near = range(max(0, after - 1), min(after + 1, len(times)))
    return min(near, key=lambda index: abs(times[index] - time))


def _fitted(picture: Picture, size: tuple[int, int]) -> Picture:
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    is_larger = width * height > size[0] * size[1]
    return shrink(picture, size) if is_larger else enlarge(picture, size)
