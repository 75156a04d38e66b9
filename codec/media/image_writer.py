"""Writing frames as numbered images."""

import logging
import re
from fractions import Fraction
from pathlib import Path

import av
from av.video.codeccontext import VideoCodecContext

from gsvc.codec.bitstream.errors import ConfigError, OutputError
from gsvc.codec.bitstream.frames import Color, Frame, VideoFormat
from gsvc.codec.media.color import coded_picture
from gsvc.codec.media.marks import NO_ROOM, Mark, with_xmp
from gsvc.codec.media.output import explain_failure
from gsvc.codec.media.places import NUMBER

DEFAULT_NAME = "%05d.png"

_log = logging.getLogger(__name__)

_JPEG_COLOR = Color(matrix=6, full_range=True)  # JFIF: BT.601, full range
_CODECS = {
    ".png": ("png", "rgb24"),
    ".bmp": ("bmp", "bgr24"),
    ".ppm": ("ppm", "rgb24"),
    ".tif": ("tiff", "rgb24"),
    ".tiff": ("tiff", "rgb24"),
    ".jpg": ("mjpeg", "yuvj444p"),
    ".jpeg": ("mjpeg", "yuvj444p"),
}
_HAS_XMP = {"png", "mjpeg"}
_JPEG_SCALE = 118  # quantiser 1, the finest, in FFmpeg's lambda units


def image_pattern(target: str) -> Path | None:
    """The path of images: a folder ("out/"), with a number ("out/%05d.png"), or of one image.

    None when `target` names no images. Raises ConfigError for a name with several numbers.
    """
    if target.endswith(("/", "\\")):
        return Path(target) / DEFAULT_NAME
    path = Path(target)
    if path.suffix.lower() not in _CODECS:
        return None
    if len(NUMBER.findall(path.name)) > 1 or "%" in NUMBER.sub("", path.name):
        raise ConfigError(f"{target}: give it one number and no other %, such as %05d{path.suffix}")
    return path


def is_numbered(pattern: Path) -> bool:
    """Whether a path of `image_pattern` names many images."""
    return bool(NUMBER.search(pattern.name))


class ImageWriter:
    """Codes each frame as one image in `folder`, named after `pattern`, numbered from 1.

    Raises OutputError when images of that pattern exist in the target folder, unless `overwrite`.
    """

    def __init__(
        self, folder: Path, pattern: Path, form: VideoFormat, mark: Mark | None, overwrite: bool
    ) -> None:
        if not overwrite:
            _refuse_to_mix(pattern)
        self._folder = folder
        self._pattern = pattern
        self._count = 0
        self._coder = _ImageCoder(pattern, form, mark)

    def write(self, frame: Frame) -> None:
        self._count += 1
        name = self._pattern.name % self._count
        data = self._coder.encode(frame)
        with explain_failure(self._pattern.parent / name):
            (self._folder / name).write_bytes(data)

    def finish(self) -> None:
        """Nothing to do: every image is written."""


class OneImageWriter:
    """Codes the only frame as the image at `path`, in the format that `target`'s suffix names."""

    def __init__(self, path: Path, target: Path, form: VideoFormat, mark: Mark | None) -> None:
        self._path, self._target = path, target
        self._coder = _ImageCoder(target, form, mark)
        self._is_written = False

    def write(self, frame: Frame) -> None:
        """Write it. Raises ConfigError for a second one."""
        if self._is_written:
            target = self._target
            raise ConfigError(
                f"{target}: names one image of several: number them, such as "
                f"{target.stem}-%05d{target.suffix}, or take one with frames=1"
            )
        self._path.write_bytes(self._coder.encode(frame))
        self._is_written = True

    def finish(self) -> None:
        """Nothing to do: the image is written."""


class _ImageCoder:
    """Codes each frame as an image of its own, with the mark if its format takes it."""

    def __init__(self, target: Path, form: VideoFormat, mark: Mark | None) -> None:
        self._mark = mark
        self._codec, self._pixel_format = _CODECS[target.suffix.lower()]
        if mark is not None and self._codec not in _HAS_XMP:
            _log.warning(NO_ROOM, target)
        self._coder = self._open(form)

    def encode(self, frame: Frame) -> bytes:
        picture = coded_picture(frame.pixels, _JPEG_COLOR, self._pixel_format)
        picture.pts = frame.pts
        image = b"".join(bytes(packet) for packet in self._coder.encode(picture))
        return image if self._mark is None else with_xmp(image, self._mark)

    def _open(self, form: VideoFormat) -> VideoCodecContext:
        coder = av.CodecContext.create(self._codec, "w")
        assert isinstance(coder, VideoCodecContext)
        coder.width, coder.height = form.width, form.height
        coder.pix_fmt = self._pixel_format
        coder.time_base = Fraction(1, 25)
        coder.sample_aspect_ratio = form.pixel_aspect
        coder.thread_count = 1  # one frame in, one image out
        if self._codec == "mjpeg":
            coder.color_range = 2
            coder.qmin = 1
            coder.qscale, coder.global_quality = True, _JPEG_SCALE
        return coder


def _refuse_to_mix(pattern: Path) -> None:
    before, _, after = NUMBER.split(pattern.name)
    shape = re.compile(re.escape(before) + r"\d+" + re.escape(after))
    if pattern.parent.is_dir():
        for path in pattern.parent.iterdir():
            if shape.fullmatch(path.name):
                raise OutputError(f"{path} already exists: overwrite=True replaces such images")
