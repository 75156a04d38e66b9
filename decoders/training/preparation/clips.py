"""Clips of sources: found by looking through them once, and read again when they are coded."""

from collections.abc import Iterator
from dataclasses import dataclass

import av
import numpy as np
from av import VideoFrame
from av.container import InputContainer
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.datasets.resizing import protocol_size
from gsvc.decoders.training.preparation.sources import opened_video
from gsvc.encoders.cuts import CutDetector

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
    """Its time, in units of the stream."""
    rate: float
    """Frames a second."""

    @property
    def key(self) -> str:
        """A name for it, the same wherever the source lies."""
        return f"{self.sha256[:16]}-{self.number:06d}"


def scenes(address: str, lines: int, frames: int) -> Iterator[tuple[int, int, list[Picture]]]:
    """Every run of so many frames without a cut: number and time of the first one, the frames.

    Raises InputError where the source is damaged or has fewer lines.
    """
    run: list[tuple[int, int, Picture]] = []
    is_cut = CutDetector()
    with opened_video(address) as container:
        for number, (pts, picture) in enumerate(_pictures(container, lines)):
            if is_cut(picture):
                run = []
            run.append((number, pts, picture))
            if len(run) == frames:
                yield run[0][0], run[0][1], [each for _, _, each in run]
                run = []


def frame_rate(address: str) -> float:
    """Frames a second of a source, 25 where it does not say."""
    with opened_video(address) as container:
        return float(container.streams.video[0].average_rate or 25)


def read_clip(clip: Clip, lines: int, frames: int) -> list[Picture]:
    """The frames of a clip, RGB uint8 (H, W, 3). Raises InputError where they are not there."""
    pictures: list[Picture] = []
    with opened_video(clip.address) as container:
        stream = container.streams.video[0]
        if clip.number:
            back = round(_REACHED_BACK / clip.rate / float(stream.time_base or 1 / clip.rate))
            container.seek(max(0, clip.pts - back), stream=stream)
        for pts, picture in _pictures(container, lines, clip.pts):
            if not pictures and pts != clip.pts:
                raise InputError(f"frame {clip.number} is not where it was")
            pictures.append(picture)
            if len(pictures) == frames:
                return pictures
    raise InputError(f"ends within frames {clip.number} to {clip.number + frames}")


def _pictures(
    container: InputContainer, lines: int, first: int | None = None
) -> Iterator[tuple[int, Picture]]:
    """Time and picture of frames, those before `first` left out."""
    stream: VideoStream = container.streams.video[0]
    if min(stream.width, stream.height) < lines:
        raise InputError(f"has {min(stream.width, stream.height)} lines: {lines} are asked for")
    size = protocol_size(stream.width, stream.height, lines)
    try:
        for frame in container.decode(stream):
            if frame.pts is None:
                raise InputError("has frames without a time")
            if first is None or frame.pts >= first:
                yield frame.pts, _picture(frame, size)
    except (av.FFmpegError, OSError) as error:
        raise InputError(f"is damaged ({error})") from error


def _picture(frame: VideoFrame, size: tuple[int, int]) -> Picture:
    shrunk = frame.reformat(*size, format="rgb24", interpolation=Interpolation.AREA)
    return np.asarray(shrunk.to_ndarray(), np.uint8)
