"""Conversion between RGB and YUV by FFmpeg's swscale, with accurate rounding.

Every conversion names its matrix and range by the code points of ITU-T H.273, so that no default
shifts a colour. Decoded frames are converted by their tags; HDR and alpha are refused.
"""

import threading
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import HasThreads, UnsupportedInputError
from gsvc.codec.bitstream.frames import UNSPECIFIED, Color, Picture

_SWSCALE_MATRIX = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
}
_QUALITY = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT


def yuv_from_rgb(picture: Picture, color: Color, pixel_format: str = "yuv420p") -> av.VideoFrame:
    """Convert RGB uint8 (H, W, 3) to a YUV frame in `color`'s matrix and range, tagged so."""
    matrix = _matrix(color, picture.shape[0])
    frame = _converted(
        av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24"),
        pixel_format,
        src_colorspace=matrix,
        dst_colorspace=matrix,
        src_color_range=ColorRange.JPEG,
        dst_color_range=range_of(color),
        interpolation=_QUALITY,
    )
    frame.color_range = range_of(color)
    frame.colorspace = color.matrix
    return frame


def coded_picture(picture: Picture, color: Color, pixel_format: str) -> av.VideoFrame:
    """RGB uint8 (H, W, 3) as a frame in `pixel_format`; of YUV, in `color`'s matrix and range."""
    if not av.VideoFormat(pixel_format).is_rgb:
        return yuv_from_rgb(picture, color, pixel_format)
    frame, full = av.VideoFrame.from_ndarray(picture, "rgb24"), ColorRange.JPEG
    return _converted(frame, pixel_format, src_color_range=full, dst_color_range=full)


def rgb_from_yuv(frame: av.VideoFrame, color: Color) -> Picture:
    """Convert any frame of 8 to 16 bits to RGB uint8 (H, W, 3); `color` describes its YUV."""
    matrix = _matrix(color, frame.height)
    converted = _converted(
        frame,
        "rgb24",
        src_colorspace=matrix,
        dst_colorspace=matrix,
        src_color_range=range_of(color),
        dst_color_range=ColorRange.JPEG,
        interpolation=_QUALITY,
    )
    return np.asarray(converted.to_ndarray(), np.uint8)


_CHROMA = np.arange(256) - 128
_STRENGTH = np.minimum(abs(_CHROMA), 127)
_COMPANDED, _EXPANDED = (
    (128 + np.sign(_CHROMA) * strength).astype(np.uint8)
    for strength in (
        np.rint(381 * _STRENGTH / (127 + 2 * _STRENGTH)),
        (254 * _STRENGTH + 381 - 2 * _STRENGTH) // (762 - 4 * _STRENGTH),
    )
)
"""What each chroma sample becomes."""


def compand_chroma(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """YUV 4:2:0 as FFmpeg packs it, (H * 3 / 2, W), with pale colours three times as strong and the
    strongest as they were. What is short of bits drops weak chroma before all else."""
    return _with_chroma(planes, _COMPANDED)


def expand_chroma(frame: av.VideoFrame) -> av.VideoFrame:
    """Undo `compand_chroma` in a decoded frame of YUV 4:2:0."""
    planes = np.asarray(frame.to_ndarray(), np.uint8)
    expanded = av.VideoFrame.from_ndarray(_with_chroma(planes, _EXPANDED), frame.format.name)
    expanded.color_range, expanded.colorspace = frame.color_range, frame.colorspace
    return expanded


def _with_chroma(planes: NDArray[np.uint8], table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    lines = len(planes) * 2 // 3
    return np.concatenate([planes[:lines], table[planes[lines:]]])


class _Converters(HasThreads):
    """A thread keeps its own: to make one takes longer than to convert a small picture."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[tuple[str, str], VideoReformatter] = {}

    def let_go(self) -> None:
        self.made.clear()


class _OfThread(threading.local):
    def __init__(self) -> None:  # once in each thread
        self.converters = _Converters()


_kept = _OfThread()


def _converted(frame: av.VideoFrame, pixel_format: str, **settings: Any) -> av.VideoFrame:
    made = _kept.converters.made
    converter = made.setdefault((frame.format.name, pixel_format), VideoReformatter())
    converted: av.VideoFrame = converter.reformat(frame, format=pixel_format, **settings)
    return converted


def _matrix(color: Color, height: int) -> Colorspace:
    return _SWSCALE_MATRIX.get(color.resolved_matrix(height), Colorspace.ITU709)


def range_of(color: Color) -> ColorRange:
    """Whether samples take 0-255 or the narrower range of video, as FFmpeg calls it."""
    return ColorRange.JPEG if color.full_range else ColorRange.MPEG


_HDR_TRANSFER = {16: "PQ", 18: "HLG"}
_MATRICES = {1, 2, 4, 5, 6, 7, 9}
_OPAQUE = 254  # what swscale makes of an opaque yuva422p
_MISREAD = {"rgb555be", "rgb565be", "bgr555be", "bgr565be"}
"""What swscale 9.5 takes for little-endian on its way to rgb24."""
_LIMITED_TO_FULL = np.clip(np.rint((np.arange(256) - 16) * 255 / 219), 0, 255).astype(np.uint8)

_TONE_MAP = (
    'ffmpeg -i INPUT -vf "zscale=t=linear:npl=100,tonemap=hable,'
    'zscale=p=bt709:t=bt709:m=bt709:r=tv,format=yuv420p" OUTPUT'
)
LOOSE = "the frame"  # what a frame is called that is of no file
_FLATTEN = "ffmpeg -i INPUT -vf premultiply=inplace=1,format=yuv420p OUTPUT"


def source_color(frame: av.VideoFrame) -> Color:
    """A frame's colour. Reserved code points become "unspecified".

    RGB has no matrix: its matrix is unspecified and its output range limited, as players expect.
    Grey without a range tag is full range, as FFmpeg assumes.
    """
    tags = _tag(frame.color_primaries), _tag(frame.color_trc)
    if _is_rgb(frame):
        return Color(*tags)
    name = frame.format.name
    full = frame.color_range == ColorRange.JPEG or name.startswith("yuvj")
    full |= name.startswith("gray") and frame.color_range != ColorRange.MPEG
    return Color(*tags, _tag(frame.colorspace), full)


def rgb_picture(frame: av.VideoFrame, label: str) -> Picture:
    """RGB uint8 (H, W, 3), before rotation, of the frame that `label` names in messages.

    Raises UnsupportedInputError for HDR and alpha.
    """
    if (kind := _HDR_TRANSFER.get(frame.color_trc)) is not None:
        raise _hdr_error(kind, label)
    has_alpha = any(component.is_alpha for component in frame.format.components)
    # GIFs, screenshots and ProRes 4444 have the channel and yet, nearly always, opaque pictures.
    if (has_alpha or frame.format.has_palette) and bool(
        (_converted(frame, "rgba").to_ndarray()[..., 3] < _OPAQUE).any()
    ):
        raise _alpha_error(label)
    color = source_color(frame)
    if _is_rgb(frame):
        full = "JPEG"
        if frame.format.name in _MISREAD:
            frame = _converted(frame, "gbrp", src_color_range=full, dst_color_range=full)
        plain = _converted(frame, "rgb24", src_color_range=full, dst_color_range=full)
        return np.asarray(plain.to_ndarray(), np.uint8)
    if color.matrix not in _MATRICES:
        raise UnsupportedInputError(
            f"{label}: colour matrix {color.matrix} is not supported: "
            "convert it with ffmpeg -i INPUT -vf scale=out_color_matrix=bt709 OUTPUT"
        )
    picture = rgb_from_yuv(frame, color)
    if frame.format.name.startswith("gray") and not color.full_range:
        return _LIMITED_TO_FULL[picture]  # swscale takes all grey as full range
    return picture


_DOLBY_VISION = {"dvh1", "dvhe", "dva1", "dvav", "dav1"}
_NOT_STATED = {"color_primaries": 2, "color_trc": 2, "colorspace": 2, "color_range": 0}


def refuse_track(stream: av.VideoStream, label: str) -> None:
    """Raise UnsupportedInputError for what no decoded frame tells: VP8 and VP9 with alpha, which
    the decoder drops, and Dolby Vision, whose colour only the container names."""
    if stream.metadata.get("alpha_mode") == "1":
        raise _alpha_error(label)
    if stream.codec_context.codec_tag in _DOLBY_VISION:
        raise _hdr_error("Dolby Vision", label)


class ContainerColor:
    """The colour that a container states, for frames whose own bitstream states none."""

    def __init__(self, stream: av.VideoStream) -> None:
        """Ask before the first frame is decoded: the decoder overwrites it."""
        context = stream.codec_context
        self._stated = {name: int(getattr(context, name)) for name in _NOT_STATED}
        self._stated["color_range"] |= 2 * (context.name == "tiff")  # YCbCr there is full range

    def complete(self, frame: av.VideoFrame) -> None:
        """Put it into the frame where that says nothing."""
        for name, value in self._stated.items():
            if getattr(frame, name) == _NOT_STATED[name]:
                setattr(frame, name, value)


def _hdr_error(kind: str, label: str) -> UnsupportedInputError:
    why = f"{label}: HDR video ({kind}) is not supported: tone-map it first with {_TONE_MAP}"
    return UnsupportedInputError(why)


def _alpha_error(label: str) -> UnsupportedInputError:
    how = 'frame.reformat(format="rgb24")' if label == LOOSE else _FLATTEN
    why = f"{label}: transparency (alpha) is not supported: flatten it first with {how}"
    return UnsupportedInputError(why)


def _is_rgb(frame: av.VideoFrame) -> bool:
    return frame.format.is_rgb or frame.format.has_palette


def _tag(code: int) -> int:
    return UNSPECIFIED if code in (0, 3) else int(code)
