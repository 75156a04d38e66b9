"""Reading raw YUV files frame by frame."""

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Color, Picture
from gsvc.codec.media.color import rgb_from_yuv
from gsvc.datasets.raw_format import RawFormat

RAW_SUFFIXES = {".yuv"}


def read_raw(path: str | Path, form: RawFormat, frames: int | None = None) -> Iterator[Picture]:
    """The first `frames` pictures (None: all), RGB uint8 (H, W, 3), full range.

    Raises InputError when the file is missing or unreadable, is no whole number of frames long, or
    has samples of another bit depth.
    """
    path = Path(path)
    try:
        count = _count(path, form)
        with path.open("rb") as file:
            for index in range(count if frames is None else min(count, frames)):
                data = np.frombuffer(file.read(form.frame_bytes), np.uint8)
                if data.size != form.frame_bytes:
                    raise InputError(f"{path}: became shorter while it was read: copy it again")
                if index == 0:
                    _check_depth(path, form, data)
                yield _picture(data, form)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error


def _count(path: Path, form: RawFormat) -> int:
    if not path.is_file():
        raise InputError(f"{path}: no such file: check the name")
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"{path}: the file is empty: copy or download it again")
    if size % form.frame_bytes:
        raise InputError(
            f"{path}: {size} bytes are no whole number of {form} frames of {form.frame_bytes} "
            "bytes: the file is cut short, or the size, depth or chroma in its name is wrong"
        )
    return size // form.frame_bytes


def _check_depth(path: Path, form: RawFormat, data: NDArray[np.uint8]) -> None:
    """Tell a wrong bit depth, which shows as noise: the high byte of 10 bits is below 4."""
    luma = data[: form.sample_bytes * form.width * form.height]
    high, low = luma[1::2], luma[::2]
    looks_like_10 = high.size > 0 and high.max() < 4 <= low.max()
    if form.bit_depth == 8 and looks_like_10:
        raise InputError(
            f"{path}: read as 8 bits, but the samples look like 10 bits in two bytes: "
            "put 10bit into its name"
        )
    if form.bit_depth == 10 and high.max() >= 4:
        raise InputError(
            f"{path}: read as 10 bits, but samples exceed 1023: "
            "take 10bit out of its name, or convert it (low byte first)"
        )


def _picture(data: NDArray[np.uint8], form: RawFormat) -> Picture:
    frame = av.VideoFrame(form.width, form.height, form.pixel_format)
    start = 0
    for plane, (height, width) in zip(frame.planes, form.planes, strict=True):
        row = width * form.sample_bytes
        rows = np.zeros((plane.buffer_size // plane.line_size, plane.line_size), np.uint8)
        rows[:height, :row] = data[start : start + height * row].reshape(height, row)
        plane.update(rows.tobytes())
        start += height * row
    return rgb_from_yuv(frame, Color())
