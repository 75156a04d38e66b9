"""Clips of sources: found by looking through them once, and read again when they are coded."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile, islice

import av
import numpy as np
from av import VideoFrame
from av.container import InputContainer
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import protocol_size
from gsvc.decoders.training.preparation.sources import opened_video
from gsvc.encoders.coding.group_coder import CutDetector

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
