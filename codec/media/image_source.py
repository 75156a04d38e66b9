"""A pattern of images as a video, at 25 fps unless another rate is given."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av

from gsvc.codec.errors import InputError
from gsvc.codec.input import matches
from gsvc.codec.media.ffmpeg_input import fraction, open_media, reason
from gsvc.codec.media.orientation import display_matrix

IMAGE_RATE = Fraction(25)


class ImageSource:
    """Images in order of their names, numbers counted as numbers (img2 before img10)."""

    start_time = Fraction(0)
    has_sound = False
    matrix = staticmethod(display_matrix)

    def __init__(self, pattern: str | Path, rate: Fraction = IMAGE_RATE) -> None:
        """`rate`: images a second."""
        self.name = str(pattern)
        self.frame_rate, self.time_base = rate, 1 / rate
        self.pixel_aspect = Fraction(1)
        self._paths = sorted(matches(self.name), key=_natural)
        if not self._paths:
            raise InputError(f"{self.name}: no image matches: check the folder and the pattern")
        self.frame_count: int | None = len(self._paths)

    def frames(self, start: Fraction) -> Iterator[tuple[str, av.VideoFrame]]:
        """The images from the one shown at `start` seconds on, each after its file name."""
        first = math.floor(start * self.frame_rate)
        for index, path in enumerate(self._paths[first:], first):
            frame = self._read(path)
            frame.pts = index
            yield path, frame

    def close(self) -> None:
        """Nothing to close: each image was closed after reading."""

    def _read(self, path: str) -> av.VideoFrame:
        with open_media(path) as container:
            try:
                stream = container.streams.video[0]
                self.pixel_aspect = fraction(stream.sample_aspect_ratio) or Fraction(1)
                return next(container.decode(stream))
            except (IndexError, StopIteration):
                raise InputError(f"{path}: holds no picture: remove it or replace it") from None
            except av.FFmpegError as error:
                raise InputError(f"{path}: {reason(error)}") from error


def _natural(path: str) -> list[tuple[int, int | str]]:
    parts = re.split(r"(\d+)", path)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]
