"""Small video files to make, read back and refuse, for the tests of video in and out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from gsvc import Frame, GsvcError, Picture, VideoFormat
from gsvc.codec.media.video_reader import open_video

CFR = Fraction(1, 25)
MS = Fraction(1, 1000)
VFR_TIMES = [0, 40, 100, 110, 300, 340, 380, 900]
SAME = {"threads": "1", "x264-params": "cpu-independent=1"}
"""x264 writes the same in each run and on each machine; else it differs by CPU and by chance."""


def scene(index: int, width: int = 64, height: int = 48) -> Picture:
    """A smooth picture without symmetry; `index` (below 60) is the grey of its top left corner."""
    y, x = np.mgrid[:height, :width]
    picture = np.stack([60 + 120 * x / width, 60 + 120 * y / height, 128 + 0 * x], -1).astype(
        np.uint8
    )
    picture[: height // 3, : width // 4] = 4 * index
    return picture


def index_of(picture: Picture) -> int:
    """The index a `scene` was made with, from its top left corner."""
    return round(float(picture[2:8, 2:8].mean()) / 4)


@dataclass
class Clip:
    """A clip to make with PyAV: lossless RGB in Matroska unless told otherwise."""

    pictures: Sequence[Picture]
    codec: str = "ffv1"
    pixel_format: str = "bgr0"
    time_base: Fraction = MS
    times: Sequence[int] | None = None
    options: dict[str, str] = field(default_factory=dict)
    muxer_options: dict[str, str] = field(default_factory=dict)
    rotation: int | None = None
    aspect: Fraction | None = None
    tags: dict[str, int] = field(default_factory=dict)

    def write(self, path: Path, muxer: str | None = None) -> Path:
        height, width = self.pictures[0].shape[:2]
        with av.open(str(path), "w", format=muxer, options=self.muxer_options) as container:
            options = {**(SAME if self.codec == "libx264" else {}), **self.options}
            stream = container.add_stream(self.codec, rate=25, options=options)
            assert isinstance(stream, VideoStream)
            stream.width, stream.height, stream.pix_fmt = width, height, self.pixel_format
            stream.time_base = stream.codec_context.time_base = self.time_base
            if self.aspect:
                stream.codec_context.sample_aspect_ratio = self.aspect
            if self.rotation is not None:
                stream.set_display_rotation(self.rotation)
            for name, value in self.tags.items():
                setattr(stream.codec_context, name, value)
            for index, picture in enumerate(self.pictures):
                layout = "rgba" if picture.shape[2] == 4 else "rgb24"
                frame = av.VideoFrame.from_ndarray(picture, layout)
                frame = frame.reformat(format=self.pixel_format)
                due = round(index * CFR / self.time_base)
                frame.pts = self.times[index] if self.times else due
                frame.time_base = self.time_base
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path


def h264(count: int, **more: object) -> Clip:
    """H.264 with B-frames and an intra picture every 12 frames."""
    options = {"preset": "ultrafast", "crf": "5", "g": "12", "bf": "2"}
    pictures = [scene(index) for index in range(count)]
    return Clip(pictures, "libx264", "yuv420p", CFR, options=options, **more)  # type: ignore[arg-type]


def read(source: str | Path, **more: float) -> tuple[VideoFormat, list[Frame]]:
    with open_video(source, **more) as video:  # type: ignore[arg-type]
        return video.format, list(video)


def refused(kind: type[GsvcError], source: str | Path) -> str:
    with pytest.raises(kind) as caught:
        read(source)
    message = str(caught.value)
    assert "\n" not in message
    return message
