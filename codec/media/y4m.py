"""Writing y4m (YUV4MPEG2): a header line, then the planes of each frame."""

from typing import BinaryIO

import numpy as np

from gsvc.codec.frames import Color, Frame, VideoFormat
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.codec.media.fixed_rate import FixedRate


class Y4mEncoder:
    """Writes RGB pictures to a binary file as 4:2:0, or 4:4:4 where a side is odd.

    y4m has a range tag but no matrix tag: the matrix is what readers assume for the size. It has
    one frame rate and no timestamps; a warning tells of times that are lost.
    """

    def __init__(self, file: BinaryIO, form: VideoFormat, target: str) -> None:
        """`target`: what a warning calls the file."""
        self._file = file
        self._rate, self._first, self._count = FixedRate(target, form), 0, 0
        even = form.width % 2 == 0 and form.height % 2 == 0
        self._pixel_format = "yuv420p" if even else "yuv444p"
        self._color = Color(full_range=form.color.full_range)
        rate, aspect = form.frame_rate, form.pixel_aspect
        fields = (
            "YUV4MPEG2",
            f"W{form.width}",
            f"H{form.height}",
            f"F{rate.numerator}:{rate.denominator}",
            "Ip",
            f"A{aspect.numerator}:{aspect.denominator}",
            "C420jpeg" if even else "C444",
            f"XCOLORRANGE={'FULL' if form.color.full_range else 'LIMITED'}",
        )
        file.write(" ".join(fields).encode() + b"\n")

    def write(self, frame: Frame) -> None:
        """Write one frame of the format's size."""
        coded = yuv_from_rgb(frame.pixels, self._color, self._pixel_format)
        planes = np.asarray(coded.to_ndarray(), np.uint8)
        self._file.write(b"FRAME\n" + planes.tobytes())
        self._first = frame.pts if self._count == 0 else self._first
        self._rate.check(frame.pts - self._first, self._count)
        self._count += 1

    def finish(self) -> None:
        """Write out what is buffered."""
        self._file.flush()
