"""JPEG and WebP: every frame a picture of its own, by OpenCV (libjpeg-turbo and libwebp)."""

import time
from abc import ABC
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import cv2
import numpy as np

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.eval.baselines import base
from gsvc.eval.baselines.base import Decoded, Option, Settings
from gsvc.eval.baselines.conventional import coded_size, enlarge, read_scale, shrink
from gsvc.eval.late_loading import CodecFacts


class QualityCodec(base.Codec, ABC):
    """A codec with two settings.

    Settings:
        quality: one of `qualities`.
        scale: coded size relative to the frames, as a fraction: "1", "1/2".
    """

    qualities: ClassVar[range]

    def __init__(self, quality: Option, scale: Option) -> None:
        self._points: list[Settings] = [
            {"quality": q, "scale": str(s)}
            for s in base.several(scale)
            for q in base.all_of("quality", quality, int)
        ]
        for point in self._points:
            self._read(point)

    def rate_points(self) -> Sequence[Settings]:
        return self._points

    def _read(self, settings: Settings) -> tuple[int, Fraction]:
        if set(settings) != {"quality", "scale"}:
            raise ConfigError(f"{self.name} takes the settings quality and scale")
        if (quality := settings["quality"]) not in self.qualities:
            most = self.qualities[-1]
            raise ConfigError(f"quality {quality} is out of range for {self.name}: 1 to {most}")
        return int(quality), read_scale(settings["scale"])


class ImageCodec(QualityCodec):
    """Frames as files of one picture format, each after its length."""

    qualities = range(1, 101)
    extension: ClassVar[str]
    parameters: ClassVar[tuple[int, ...]] = ()
    """Of `cv2.imencode`, beside the quality."""
    quality_parameter: ClassVar[int]

    def __init__(self, quality: Option = (5, 15, 40, 75), scale: Option = ("1", "1/2")) -> None:
        super().__init__(quality, scale)

    def version(self) -> str:
        return f"{self.name} of opencv {cv2.__version__}"

    def encode(self, clip: TestClip, settings: Settings) -> base.Encoded:
        """Code the clip. Raises ConfigError for settings out of range, InputError for no frames."""
        quality, scale = self._read(settings)
        base.require_frames(clip)
        size = coded_size((clip.width, clip.height), scale)
        start = time.perf_counter()
        data = base.join_parts(self._file(shrink(frame, size), quality) for frame in clip.frames)
        return base.Encoded(data, time.perf_counter() - start, {"pictures": 8 * len(data)})

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode to RGB at the clip's size. Raises BitstreamError where that cannot be done."""
        start = time.perf_counter()
        parts = (self._picture(part) for part in base.split_parts(data) if part)
        frames = [enlarge(picture, (clip.width, clip.height)) for picture in parts]
        return Decoded(base.all_frames(self.name, frames, clip), time.perf_counter() - start)

    def _file(self, picture: Picture, quality: int) -> bytes:
        options = (self.quality_parameter, quality, *self.parameters)
        coded = cv2.imencode(self.extension, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), options)[1]
        return coded.tobytes()

    def _picture(self, part: bytes) -> Picture:
        found = cv2.imdecode(np.frombuffer(part, np.uint8), cv2.IMREAD_COLOR_RGB)
        if found is None:
            raise BitstreamError(f"a picture of the {self.name} stream is damaged: code it again")
        return np.asarray(found, np.uint8)


class Jpeg(ImageCodec):
    """JPEG, 4:2:0, progressive, with Huffman tables of its own in every picture."""

    name = "jpeg"
    suffix = ".mjpg"
    facts = CodecFacts(is_anchor=True, colour="#b0564f", marker="P")
    extension = ".jpg"
    quality_parameter = cv2.IMWRITE_JPEG_QUALITY
    parameters = (cv2.IMWRITE_JPEG_OPTIMIZE, 1, cv2.IMWRITE_JPEG_PROGRESSIVE, 1)


class WebP(ImageCodec):
    """Lossy WebP."""

    name = "webp"
    suffix = ".webps"
    facts = CodecFacts(is_anchor=True, colour="#6b8e23", marker="X")
    extension = ".webp"
    quality_parameter = cv2.IMWRITE_WEBP_QUALITY


CODECS = Jpeg, WebP
