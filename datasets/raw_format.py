"""The format of a raw YUV file, which has no header: read from its name."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gsvc.codec.errors import ConfigError, InputError

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
    """Pixels."""
    height: int
    """Pixels."""
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
    def planes(self) -> tuple[tuple[int, int], ...]:
        """Height and width in samples of Y, Cb and Cr; half of an odd side is rounded up."""
        across, down = CHROMA[self.chroma]
        chroma = -(-self.height // down), -(-self.width // across)
        return (self.height, self.width), chroma, chroma

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame."""
        return self.sample_bytes * sum(height * width for height, width in self.planes)

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
