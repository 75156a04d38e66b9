"""Frames, audio chunks and the format of a video: the values that pass between all stages."""

from array import array
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, WrongTypeError, check_type, typed

Picture = NDArray[np.uint8]
"""RGB, (height, width, 3), uint8, 0-255, full range, in the video's own matrix and transfer."""

UNSPECIFIED = 2
"""Code point "unspecified" of ITU-T H.273 for primaries, transfer and matrix."""


@typed
@dataclass(frozen=True)
class Color:
    """Colour description by the code points of ITU-T H.273 (0-31)."""

    primaries: int = UNSPECIFIED
    transfer: int = UNSPECIFIED
    matrix: int = UNSPECIFIED
    full_range: bool = False

    def resolved_matrix(self, height: int) -> int:
        """The matrix to convert with: BT.601 (6) up to 576 lines, else BT.709 (1), if unset."""
        if self.matrix != UNSPECIFIED:
            return self.matrix
        return 6 if height <= 576 else 1

    def resolved(self, height: int) -> "Color":
        """This, with the matrix that a video of `height` lines means, whatever size is coded."""
        return replace(self, matrix=self.resolved_matrix(height))


@typed
@dataclass(frozen=True)
class VideoFormat:
    """What is constant over a video. Raises ConfigError for values that are not positive."""

    width: int
    """Pixels, as displayed: after rotation."""
    height: int
    """Pixels, as displayed: after rotation."""
    time_base: Fraction
    """Seconds of one unit of `Frame.pts`."""
    frame_rate: Fraction
    """Nominal frames per second; the exact times are the frames' own."""
    pixel_aspect: Fraction = Fraction(1)
    """Width of a pixel divided by its height."""
    color: Color = Color()

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            why = f"picture size {self.width}x{self.height}: both sides must be at least 1"
            raise ConfigError(why)
        if self.time_base <= 0 or self.frame_rate <= 0 or self.pixel_aspect <= 0:
            raise ConfigError("time base, frame rate and pixel aspect must be positive")


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """One picture with its presentation time. Frames are equal when all three fields are."""

    pixels: Picture
    pts: int
    """Presentation time in units of the format's `time_base`."""
    concealed: bool = False
    """The decoder made this frame up: its packet, or one that it builds on, was lost. Other frames
    are as they were sent, which over a thin link may be torn or move wrongly, too."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        own, others = (self.pts, self.concealed), (other.pts, other.concealed)
        return own == others and np.array_equal(self.pixels, other.pixels)

    def __repr__(self) -> str:
        return f"Frame(shape={np.shape(self.pixels)}, pts={self.pts}, concealed={self.concealed})"


def check_picture(picture: Picture, needed: tuple[int, ...]) -> None:
    """Raise ConfigError unless a frame's pixels are RGB in uint8 of the shape `needed`."""
    check_type("the frame's pixels", picture, np.ndarray)
    if picture.shape == needed and picture.dtype == np.uint8:
        return
    wrong, shape = ConfigError, picture.shape
    how = "resize it, or begin another stream of its size"
    if picture.dtype != np.uint8:
        wrong, how = WrongTypeError, "scale it to 0 to 255 (0 to 1: multiply by 255), then "
        if picture.dtype.kind in "iu" and np.array_equal(picture, picture.astype(np.uint8)):
            how = "give "
        elif picture.dtype == np.uint16:
            how = "scale it to 0 to 255 (16 bits: divide by 257, 12: by 16, 10: by 4), then "
        how += "np.asarray(frame, np.uint8)"
    elif shape in (needed[:2], (*needed[:2], 1)):
        how = "stack it three times: np.dstack([gray] * 3)"
    elif shape == (*needed[:2], 4):
        how = "drop alpha: frame[..., :3]"
    elif shape == (3, *needed[:2]):
        how = "put the channels last: frame.transpose(1, 2, 0)"
    elif shape == (needed[1], needed[0], 3):
        how = "swap its sides: frame.swapaxes(0, 1), if it is not turned"
    told = f"RGB in uint8 {needed} is needed: {how}"
    raise wrong(f"a frame of {picture.dtype} {picture.shape}: {told}")


@dataclass(frozen=True)
class AudioChunk:
    """A run of consecutive Opus packets (RFC 6716) of equal duration."""

    pts: int
    """Time of the first packet in 1/48000 s after the first video frame; may be negative."""
    channels: int
    """1 or 2."""
    packet_samples: int
    """Duration of one packet in 1/48000 s."""
    pre_skip: int
    """Samples that a decoder drops at the very start."""
    packets: tuple[bytes, ...] = field(repr=False)

    @property
    def end(self) -> int:
        """Time after the last packet, as `pts`."""
        return self.pts + len(self.packets) * self.packet_samples


def duration(times: "array[int]", form: VideoFormat) -> Fraction:
    """Seconds from the first frame to the end of the last, of their pts."""
    return (times[-1] - times[0]) * form.time_base + 1 / form.frame_rate
