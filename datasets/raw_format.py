"""The format of a raw YUV file, which has no header: from its name, or from somebody who knows."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gsvc.codec.errors import ConfigError, InputError

BIT_DEPTHS = (8, 10)
CHROMA = {"420": (2, 2), "422": (2, 1), "444": (1, 1)}
"""Chroma format -> how many luma samples share a chroma sample, across and down."""

_STANDARD_SIZES = {"qcif": (176, 144), "cif": (352, 288), "4cif": (704, 576)}
_SIZE = re.compile(r"(?<!\d)(\d{2,5})x(\d{2,5})(?!\d)p?")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:fps|hz|p)?")
_NAMED_RATE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(?:fps|hz)")
_DEPTH = re.compile(r"(?<!\d)(\d{1,2})[ -]?bits?|42[02]p(\d\d)(?:le)?|444p(\d\d)(?:le)?")
_CHROMA = re.compile(r"(?<!\d)(4:?2:?0|4:?2:?2|4:?4:?4)(?!\d)")


@dataclass(frozen=True)
class RawFormat:
    """Planar Y, Cb, Cr, one frame after the other; above 8 bits in two bytes, the low one first.

    Sides in pixels, `frame_rate` in frames per second. Limited range; the matrix is the one players
    assume, BT.601 up to 576 lines and BT.709 above; chroma lies in the middle of the luma samples that
    share it, as FFmpeg has it where nothing is said.
    """

    width: int
    height: int
    frame_rate: Fraction
    bit_depth: int = 8
    chroma: str = "420"

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
        """Height and width in samples of Y, Cb and Cr; an odd side gives chroma the larger half."""
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
    """The format as the file's name tells it, after the customs of the known sets.

    `BasketballDrive_1920x1080_50.yuv`, `Beauty_3840x2160_120fps_420_10bit_YUV.yuv`,
    `foreman_cif_30fps.yuv`. Without a word on them, 8 bits and 4:2:0. Raises InputError where the name
    gives no size or frame rate, or what is not supported.
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
    """Width and height in pixels, where the name has them."""
    if found := _SIZE.search(stem.lower()):
        return int(found[1]), int(found[2])
    words = (word for word in re.split(r"[^a-z0-9]+", stem.lower()))
    return next((_STANDARD_SIZES[word] for word in words if word in _STANDARD_SIZES), None)


def rate_from_name(stem: str) -> Fraction | None:
    """Frames per second, where the name has them: with `fps` or `Hz`, or alone right after the size."""
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
    """Bits of a sample, where the name has them."""
    found = _DEPTH.search(stem.lower())
    return int(found[1] or found[2] or found[3]) if found else None


def chroma_from_name(stem: str) -> str | None:
    """ "420", "422" or "444", where the name has it."""
    found = _CHROMA.search(_SIZE.sub("", stem.lower()))
    return found[1].replace(":", "") if found else None


def _exact_rate(digits: str) -> Fraction | None:
    """Written with decimals, 23.976 and the like stand for n x 1000/1001."""
    rate = Fraction(digits)
    ntsc = Fraction(1000, 1001) * (int(rate) + 1)
    if rate.denominator != 1 and abs(rate - ntsc) < Fraction(1, 100):
        return ntsc
    return rate if 1 <= rate <= 1000 else None
