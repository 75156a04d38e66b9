"""Test clips in memory, and reading them: raw YUV, a folder of images, or any video.

A raw YUV file's format is read from its name. Pictures get the sizes of the evaluation protocol.
"""

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Color, Picture
from gsvc.codec.media import color, video_reader


@dataclass(frozen=True)
class ClipFormat:
    """What a decoder is told beside the stream."""

    width: int
    height: int
    frame_rate: Fraction
    """Frames per second."""
    frame_count: int
    """As many pictures as the clip's `frames`."""


@dataclass(frozen=True)
class TestClip:
    """A named sequence of RGB uint8 pictures (H, W, 3) of one size, BT.709, full range."""

    name: str
    frames: Sequence[Picture] = field(repr=False)
    frame_rate: Fraction

    __test__ = False  # tells pytest that this is no test case

    @property
    def format(self) -> ClipFormat:
        """The clip without its pixels."""
        height, width = self.frames[0].shape[:2]
        return ClipFormat(width, height, self.frame_rate, len(self.frames))

    width = property(lambda self: self.format.width, doc="Pixels.")
    height = property(lambda self: self.format.height, doc="Pixels.")

    @cached_property
    def sha256(self) -> str:
        """Hash of the size and of all pixels."""
        return frames_sha256(self.frames)


def frames_sha256(frames: Sequence[Picture]) -> str:
    """SHA-256 of the shapes and bytes of all pictures, as hexadecimal digits."""
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(repr(frame.shape).encode())
        digest.update(frame.tobytes())
    return digest.hexdigest()


BIT_DEPTHS = (8, 10)
CHROMA = {"420": (2, 2), "422": (2, 1), "444": (1, 1)}
"""Chroma format -> luma samples per chroma sample, across and down."""

_STANDARD_SIZES = {"qcif": (176, 144), "cif": (352, 288), "4cif": (704, 576)}
_SIZE = re.compile(r"(?<!\d)(\d{2,5})x(\d{2,5})(?!\d)p?")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:fps|hz|p)?")
_NAMED_RATE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(?:fps|hz)")
_DEPTH = re.compile(r"(?<!\d)(\d{1,2})[ -]?bits?|42[02]p(\d\d)(?:le)?|444p(\d\d)(?:le)?")
_CHROMA = re.compile(r"(?<!\d)(4:?2:?0|4:?2:?2|4:?4:?4)(?!\d)")


@dataclass(frozen=True)
class RawFormat:
    """Planar Y, Cb, Cr, frame by frame; 10 bits are stored in two bytes, the low one first.

    Range is limited, the matrix BT.601 up to 576 lines and BT.709 above, and chroma is centred
    between its luma samples, as players and FFmpeg assume. Raises ConfigError for other values.
    """

    width: int
    height: int
    frame_rate: Fraction
    """Frames per second."""
    bit_depth: int = 8
    """8 or 10."""
    chroma: str = "420"
    """A key of `CHROMA`."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1 or self.frame_rate <= 0:
            raise ConfigError("raw video: sides must be at least 1, the frame rate above 0")
        if self.bit_depth not in BIT_DEPTHS or self.chroma not in CHROMA:
            raise ConfigError(
                f"raw video with {self.bit_depth} bits in {self.chroma}: "
                f"choose 8 or 10 bits, and {', '.join(CHROMA)}"
            )

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return 1 if self.bit_depth == 8 else 2

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame; half of an odd side is rounded up."""
        across, down = CHROMA[self.chroma]
        chroma = -(-self.height // down) * -(-self.width // across)
        return self.sample_bytes * (self.height * self.width + 2 * chroma)

    @property
    def pixel_format(self) -> str:
        """FFmpeg's name of the format."""
        return f"yuv{self.chroma}p" + ("10le" if self.bit_depth == 10 else "")

    def __str__(self) -> str:
        return f"{self.width}x{self.height} {self.bit_depth}-bit {':'.join(self.chroma)}"


def format_from_name(path: str | Path) -> RawFormat:
    """The format that the file's name tells, as is the custom of published sets.

    `BasketballDrive_1920x1080_50.yuv`, `Beauty_3840x2160_120fps_420_10bit_YUV.yuv`,
    `foreman_cif_30fps.yuv`. The default is 8 bits and 4:2:0. Raises InputError if the name has no
    size or frame rate, or an unsupported format.
    """
    stem = Path(path).stem.lower()
    size, rate = size_from_name(stem), rate_from_name(stem)
    if size is None or rate is None:
        missing = "size" if size is None else "frame rate"
        raise InputError(
            f"{path}: raw video whose name tells no {missing}: "
            "rename it to NAME_WIDTHxHEIGHT_RATE.yuv, or convert it to y4m"
        )
    depth = bit_depth_from_name(stem) or 8
    try:
        return RawFormat(*size, rate, depth, chroma_from_name(stem) or "420")
    except ConfigError as error:
        raise InputError(f"{path}: {error}") from error


def size_from_name(stem: str) -> tuple[int, int] | None:
    """Width and height in pixels, if the name has them."""
    if found := _SIZE.search(stem.lower()):
        return int(found[1]), int(found[2])
    words = (word for word in re.split(r"[^a-z0-9]+", stem.lower()))
    return next((_STANDARD_SIZES[word] for word in words if word in _STANDARD_SIZES), None)


def rate_from_name(stem: str) -> Fraction | None:
    """Frames per second, if the name has them: before `fps` or `Hz`, or right after the size."""
    stem = stem.lower()
    if found := _NAMED_RATE.search(stem):
        return _exact_rate(found[1])
    if size := _SIZE.search(stem):
        next_word = re.split(r"[_\- ]", stem[size.end() :].lstrip("_- "))[0]
        found = _RATE.fullmatch(next_word)
        if found and not _CHROMA.fullmatch(next_word):
            return _exact_rate(found[1])
    return None


def bit_depth_from_name(stem: str) -> int | None:
    """Bits of a sample, if the name has them."""
    found = _DEPTH.search(stem.lower())
    return int(found[1] or found[2] or found[3]) if found else None


def chroma_from_name(stem: str) -> str | None:
    """A key of `CHROMA`, if the name has one."""
    found = _CHROMA.search(_SIZE.sub("", stem.lower()))
    return found[1].replace(":", "") if found else None


def _exact_rate(digits: str) -> Fraction | None:
    """The rate; decimals such as 23.976 stand for n x 1000/1001."""
    rate = Fraction(digits)
    ntsc = Fraction(1000, 1001) * (int(rate) + 1)
    if rate.denominator != 1 and abs(rate - ntsc) < Fraction(1, 100):
        return ntsc
    return rate if 1 <= rate <= 1000 else None


RAW_SUFFIXES = {".yuv"}


def read_raw(path: str | Path, form: RawFormat, frames: int | None = None) -> Iterator[Picture]:
    """The first `frames` pictures (None: all), RGB uint8 (H, W, 3), full range.

    Raises InputError when the file is missing or unreadable, is no whole number of frames long, or
    has samples of another bit depth.
    """
    path = Path(path)
    options = {
        "video_size": f"{form.width}x{form.height}",
        "pixel_format": form.pixel_format,
        "framerate": str(form.frame_rate),
    }
    try:
        _check_raw(path, form)
        with av.open(str(path), format="rawvideo", options=options) as container:
            for frame in islice(container.decode(video=0), frames):
                yield color.rgb_from_yuv(frame, Color())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error


def _check_raw(path: Path, form: RawFormat) -> None:
    """Tell a file whose length is not that of whole frames, or whose bit depth is another."""
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
    # A wrong bit depth shows as noise: the high byte of 10 bits is below 4.
    luma = np.fromfile(path, np.uint8, form.sample_bytes * form.width * form.height)
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


SIZES: dict[str, int | None] = {"288": 288, "480": 480, "native": None}
"""Name of a size -> short side in pixels; None keeps the clip's own size."""


def short_side(size: str) -> int | None:
    """The short side of a named size. Raises ConfigError for an unknown name."""
    if size not in SIZES:
        raise ConfigError(f"size {size!r}: choose from {', '.join(SIZES)}")
    return SIZES[size]


def protocol_size(width: int, height: int, short_side: int | None) -> tuple[int, int]:
    """Width and height, both even, scaled to a short side of `short_side` pixels (None: as is)."""
    if short_side is None:
        return width, height
    scale = Fraction(short_side, min(width, height))
    return _even(width * scale), _even(height * scale)


def resized(picture: Picture, width: int, height: int) -> Picture:
    """The picture at another size, by Lanczos if larger and area averaging if smaller."""
    if picture.shape[:2] == (height, width):
        return picture
    grows = height * width > picture.shape[0] * picture.shape[1]
    method = cv2.INTER_LANCZOS4 if grows else cv2.INTER_AREA
    return np.asarray(cv2.resize(picture, (width, height), interpolation=method), np.uint8)


def _even(length: Fraction) -> int:
    return max(2, 2 * int(length / 2 + Fraction(1, 2)))


def check_frames(frames: int | None) -> None:
    """Raise ConfigError for a number of frames below 1."""
    if frames is not None and frames < 1:
        raise ConfigError(f"frames {frames}: must be 1 or more")


IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}


def load_clip(
    path: str | Path,
    frames: int | None = 97,
    short_side: int | None = 288,
    raw: RawFormat | None = None,
) -> tuple[list[Picture], Fraction]:
    """The first `frames` pictures (None: all), RGB uint8 (H, W, 3), and the frame rate.

    The short side becomes `short_side` pixels, by `protocol_size` and `resized` (None: the clip's
    own size); the pixel aspect stays. `path` is raw YUV (`raw` is its format, None: as its name
    tells), a folder of images (25 fps, in the order of their numbers), or anything FFmpeg reads.
    Raises InputError when it is no video, ConfigError for `frames` below 1.
    """
    check_frames(frames)
    path = Path(path)
    if path.suffix.lower() in RAW_SUFFIXES and not path.is_dir():
        form = raw or format_from_name(path)
        return _at_size(read_raw(path, form, frames), short_side), form.frame_rate
    source = image_pattern(path) if path.is_dir() else path
    with video_reader.open_video(source, frames=frames) as video:
        return _at_size((frame.pixels for frame in video), short_side), video.format.frame_rate


def image_pattern(folder: Path) -> str:
    """A pattern of the folder's images of the commonest suffix. Raises InputError without any."""
    if suffix := image_suffix(folder):
        return f"{glob.escape(str(folder))}/*{suffix}"
    raise InputError(f"{folder}: a folder without images: give a video, or images in a folder")


def image_suffix(folder: Path) -> str | None:
    """The commonest suffix of the folder's images, its subfolders aside; None without any."""
    try:
        suffixes = Counter(path.suffix for path in folder.iterdir() if not path.is_dir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}): check the path") from error
    images = [(count, kind) for kind, count in suffixes.items() if kind.lower() in IMAGE_SUFFIXES]
    return max(images)[1] if images else None


def _at_size(pictures: Iterable[Picture], short_side: int | None) -> list[Picture]:
    return [resized(p, *protocol_size(p.shape[1], p.shape[0], short_side)) for p in pictures]
