"""Reading video as RGB frames: what FFmpeg reads, a glob of images, or y4m on standard input.

Presentation times are the source's own, repaired until they increase.
"""

import logging
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Self

import av
import cv2
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, InputError, typed
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.header import is_storable
from gsvc.codec.media import color, places, source_clock, video_source

INTERLACED = (
    "interlaced, moving edges are combs that cost bits: deinterlace=True draws whole pictures"
)
"""What to tell of such a video."""

Size = int | tuple[int, int]
"""Of pictures, at most: pixels of the shorter side, or width and height."""


def fitted_size(width: int, height: int, size: Size | None) -> tuple[int, int]:
    """Width and height within `size`, in proportion and even; those given where they fit."""
    within = size if isinstance(size, Sequence) else (size or width, size or height)
    ratios = within[0] / width, within[1] / height
    factor = min(ratios) if isinstance(size, Sequence) else max(ratios)
    if factor >= 1:
        return width, height
    return max(2, 2 * round(factor * width / 2)), max(2, 2 * round(factor * height / 2))


def _scaled(picture: Picture, size: Size | None) -> Picture:
    height, width = picture.shape[:2]
    if (wanted := fitted_size(width, height, size)) == (width, height):
        return picture
    return np.asarray(cv2.resize(picture, wanted, interpolation=cv2.INTER_AREA), np.uint8)


class Thinning:
    """Keeps at most `rate` frames a second: the first one of every interval of 1/rate.

    Frames keep their own times, so that things are where they were at that time.
    """

    def __init__(self, rate: Fraction | None, source_rate: Fraction) -> None:
        """`rate` in frames a second, None for all of a source that has `source_rate`."""
        self._rate = rate
        # Times are rounded to a container's ticks.
        self._early = 1 / source_rate / 4
        self._last = -1

    def keeps(self, seconds: Fraction) -> bool:
        """Whether to keep the frame of this time after the first frame; ask in order."""
        if self._rate is None:
            return True
        interval = math.floor((seconds + self._early) * self._rate)
        keeps, self._last = interval > self._last, max(interval, self._last)
        return keeps


FINEST_TIME_BASE = Fraction(1, 90_000)
"""Finer ticks are rounded to this: they cost bits and show nothing."""
_MANY = 5


class Clock:
    """Turns a source's timestamps into strictly increasing ones, in units of `time_base`.

    Good timestamps are kept exactly. A missing one becomes the time at which the frame is due at
    the nominal rate. A repeated or backward one lies halfway to that, so that the next good one is
    later still: a repair delays nothing that follows. After many of them, they count as missing.
    """

    def __init__(self, time_base: Fraction, frame_rate: Fraction) -> None:
        fits = is_storable(time_base)  # AVI of OpenCV counts in 66667/1000000 s
        self.time_base = max(time_base, FINEST_TIME_BASE) if fits else FINEST_TIME_BASE
        self._scale = time_base / self.time_base
        self._interval = 1 / (frame_rate * self.time_base)
        self._due = Fraction(0)
        self._last: int | None = None
        self._repairs = 0  # one after the other

    def stamp(self, pts: int | None) -> int:
        """The time of the next frame; `pts` is the source's timestamp, None without one."""
        value = None if pts is None else round(pts * self._scale)
        is_bad = value is not None and self._last is not None and value <= self._last
        self._repairs = self._repairs + 1 if is_bad else 0
        if self._repairs == _MANY:
            self._due += (_MANY - 1) * self._interval
        if value is None or self._repairs >= _MANY:
            value, self._due = round(self._due), self._due + self._interval
        elif is_bad:
            value = round(((self._last or 0) + self._due) / 2)
        else:
            self._due = value + self._interval
        if self._last is not None and value <= self._last:
            value, self._due = self._last + 1, max(self._due, self._last + 1 + self._interval)
        self._last = value
        return value


# Above the rounding of times to 1/90000 s, below the interval of any two frames.
_TOLERANCE = Fraction(1, 100_000)
_SLOWEST, _FASTEST = 0.01, 1000  # frames a second
_SMALLEST = 16
_LATEST = 1e9  # seconds that no video has, within what FFmpeg counts

_log = logging.getLogger(__name__)


class VideoReader:
    """The frames of one source in display order; iterate once. Use it in a `with` block."""

    format: VideoFormat
    frame_count: int | None
    """Expected number of frames; None if unknown."""
    origin: Fraction
    """Time of the first frame in seconds on the source's clock; its pts here is 0. Sound that
    begins more than half a second before the pictures makes the first one wait: it is the sound's.
    """
    has_sound: bool
    """Whether the source has audio."""
    beside: source_clock.Beside | None
    """Its packets, as they come with the pictures; None: nobody listens."""
    is_interlaced: bool
    """Whether the frames are of two fields, as the first one says."""

    def __init__(
        self,
        source: video_source.VideoSource | video_source.ImageSource,
        start: Fraction,
        frames: int | None,
        rate: Fraction | None = None,
        deinterlace: bool = False,
        size: Size | None = None,
    ) -> None:
        """`frames` and `rate`: most of them, in all and a second; None for all."""
        self._deinterlaces, self._size = deinterlace, size
        self._source, self._limit = source, frames
        self._start = max(start - source.lead, Fraction(0))
        self._is_aspect_told = False
        self._lead = max(source.lead - start, Fraction(0))
        self._rate = min(rate or source.frame_rate, source.frame_rate)
        if rate and rate > source.frame_rate:
            own = float(source.frame_rate)
            _log.warning("%s: has %.4g frames a second, all are kept", source.name, own)
        self._thinning = Thinning(rate, source.frame_rate)
        self.has_sound, self.beside = source.has_sound, source.beside
        self._clock = Clock(source.time_base, source.frame_rate)
        try:
            rest = islice(self._read(), frames)
            first = next(rest, None)
            if first is None:
                why = f"{source.name}: ends before {float(start):g} s: choose an earlier start"
                raise InputError(why)
        except BaseException:
            source.close()
            raise
        self._frames: Iterator[Frame] = iter(partial(self._next, chain((first,), rest)), None)
        self._lock, self._is_closed = Lock(), False

    def reshape(self, size: Size, rate: float, frames: int | None) -> None:
        """From the first frame on, which is not yet taken: scale to `size`, and keep at most `rate`
        frames a second and `frames` in all, as of `open_video`."""
        first, form = next(self._frames), self.format
        own = self._source.frame_rate
        self._size, self._rate = size, min(self._rate, Fraction(rate).limit_denominator(1001))
        self._thinning = Thinning(self._rate if self._rate < own else None, own)
        self._thinning.keeps(Fraction(0))
        picture = _scaled(first.pixels, size)
        height, width = picture.shape[:2]
        self.format = replace(form, width=width, height=height, frame_rate=self._rate)
        self._limit, self.frame_count = frames, self._expected_count()
        self._frames = islice(chain((replace(first, pixels=picture),), self._frames), frames)

    @property
    def seconds(self) -> Fraction | None:
        """Expected duration; None if unknown."""
        if self.frame_count is None or self._source.may_jump:  # then times say nothing
            return None
        return self._lead + self.frame_count / self.format.frame_rate

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Frame]:
        """Raises InputError when the source is damaged or changes its size, UnsupportedInputError
        when it changes to HDR or alpha, and ConfigError once the reader is closed."""
        return self._frames

    def close(self) -> None:
        """Let go of the source, once no other thread reads from it."""
        with self._lock:
            self._is_closed = True
            self._source.close()

    def _next(self, frames: Iterator[Frame]) -> Frame | None:
        with self._lock:
            if self._is_closed:
                raise ConfigError("this reader is closed: open the video again")
            return next(frames, None)

    def _read(self) -> Iterator[Frame]:
        """The frames from the start on, RGB uint8 (H, W, 3); the first one sets the format."""
        source, offset = self._source, None  # the time, in ticks, that becomes 0
        for label, frame, pts in self._begun():
            first = pts - round(self._lead / self._clock.time_base) if offset is None else offset
            if not self._thinning.keeps((pts - first) * self._clock.time_base):
                continue
            matrix = source.matrix(frame)
            picture = video_source.oriented(color.rgb_picture(frame, label)[source.crop], matrix)
            picture = _scaled(picture, self._size)
            aspect = source.pixel_aspect
            aspect = 1 / aspect if video_source.swaps_sides(matrix) else aspect
            if offset is None:
                self.is_interlaced = frame.interlaced_frame
                offset, self.origin, pts = first, first * self._clock.time_base, first
                (height, width), tags = picture.shape[:2], color.source_color(frame)
                base = self._clock.time_base
                self.format = VideoFormat(width, height, base, self._rate, aspect, tags)
                self.frame_count = self._expected_count()
            self._check_shape(label, picture, aspect)
            yield Frame(picture, pts - offset)

    def _begun(self) -> Iterator[tuple[str, av.VideoFrame, int]]:
        """Name, frame and time in ticks, from the start on; one that stands there begins then."""
        begin = self._source.start_time + self._start
        frames = self._source.frames(self._start)
        before: tuple[str, av.VideoFrame] | None = None
        for label, frame in video_source.deinterlaced(frames) if self._deinterlaces else frames:
            pts, base = self._clock.stamp(frame.pts), self._clock.time_base
            if self._start and pts * base < begin - _TOLERANCE:
                before = label, frame
                continue
            if before is not None and pts * base - begin >= video_source.LONG:
                yield *before, math.ceil(begin / base)
            before = None
            yield label, frame, pts

    def _expected_count(self) -> int | None:
        whole = self._source.frame_count
        if whole is None:
            return None
        skipped = max(self.origin - self._source.start_time, Fraction(0)) * self._source.frame_rate
        rest = max(1, math.ceil((whole - round(skipped)) * self._rate / self._source.frame_rate))
        return rest if self._limit is None else min(rest, self._limit)

    def _check_shape(self, label: str, picture: Picture, aspect: Fraction) -> None:
        height, width = picture.shape[:2]
        wanted = self.format
        if aspect != wanted.pixel_aspect and not self._is_aspect_told:
            self._is_aspect_told = True
            _log.warning(
                "%s: pixels of shape %s, but all are shown as the first, %s: "
                "encode the parts one by one, with start= and frames=",
                label,
                aspect,
                wanted.pixel_aspect,
            )
        if (width, height) != (wanted.width, wanted.height):
            raise InputError(
                f"{label}: size {width}x{height}, but the first frame has "
                f"{wanted.width}x{wanted.height}: make them equal with "
                f"ffmpeg -i INPUT -vf scale={wanted.width}:{wanted.height} OUTPUT"
            )


@typed
def open_video(
    source: str | Path,
    *,
    start: float = 0.0,
    frames: int | None = None,
    fps: float | None = None,
    deinterlace: bool = False,
    size: Size | None = None,
    listens: bool = False,
) -> VideoReader:
    """Open a video for reading from `start` seconds on, at most `frames` frames.

    `source` is anything FFmpeg reads, a pattern of images ("dir/*.png" or "dir/%05d.png"), or "-"
    for y4m on standard input. `fps` is the rate of images, 25 by default, and the most frames a
    second of anything else; a video that has no more stays as it is. `deinterlace` draws whole
    pictures of fields, two of which make a frame. `size` scales larger pictures down. `listens`
    keeps the sound that comes with them until someone takes it. Frames are SDR, 8 bits, as
    displayed: with rotation applied. Raises InputError when the source cannot be read,
    UnsupportedInputError for HDR and alpha, ConfigError for a negative `start`, for `frames` below
    1, for `fps` out of range and for a `size` below 16.
    """
    if size is not None and min(size if isinstance(size, Sequence) else (size,)) < _SMALLEST:
        raise ConfigError(f"size {size}: {_SMALLEST} pixels at least")
    if not 0 <= start < math.inf:
        raise ConfigError(f"start {start} s: must be 0 or more")
    if frames is not None and frames < 1:
        raise ConfigError(f"frames {frames}: must be 1 or more")
    frames = frames and min(frames, sys.maxsize)
    begin = Fraction(min(start, _LATEST)).limit_denominator(1_000_000)
    if fps is not None and not _SLOWEST <= fps <= _FASTEST:
        raise ConfigError(f"fps {fps:g} is out of range: {_SLOWEST:g} to {_FASTEST}")
    rate = None if fps is None else Fraction(fps).limit_denominator(1001)
    if places.is_glob(source):
        images = video_source.ImageSource(source, rate or video_source.IMAGE_RATE)
        return VideoReader(images, begin, frames, size=size)
    video = video_source.VideoSource(source, listens=listens)
    return VideoReader(video, begin, frames, rate, deinterlace, size)
