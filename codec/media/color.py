"""Conversion between RGB and YUV by FFmpeg's swscale, with accurate rounding.

Every conversion names its matrix and range by the code points of ITU-T H.273, so that no default
shifts a colour.
"""

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation

from gsvc.codec.frames import Color, Picture

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
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24").reformat(
        format=pixel_format,
        src_colorspace=matrix,
        dst_colorspace=matrix,
        src_color_range=ColorRange.JPEG,
        dst_color_range=_range(color),
        interpolation=_QUALITY,
    )
    frame.color_range = _range(color)
    frame.colorspace = color.matrix
    return frame


def coded_picture(picture: Picture, color: Color, pixel_format: str) -> av.VideoFrame:
    """RGB uint8 (H, W, 3) as a frame in `pixel_format`, in `color`'s matrix and range if it is YUV.

    RGB is of full range.
    """
    if not av.VideoFormat(pixel_format).is_rgb:
        return yuv_from_rgb(picture, color, pixel_format)
    return av.VideoFrame.from_ndarray(picture, "rgb24").reformat(
        format=pixel_format, src_color_range=ColorRange.JPEG, dst_color_range=ColorRange.JPEG
    )


def rgb_from_yuv(frame: av.VideoFrame, color: Color) -> Picture:
    """Convert any frame of 8 to 16 bits to RGB uint8 (H, W, 3); `color` describes its YUV."""
    matrix = _matrix(color, frame.height)
    converted = frame.reformat(
        format="rgb24",
        src_colorspace=matrix,
        dst_colorspace=matrix,
        src_color_range=_range(color),
        dst_color_range=ColorRange.JPEG,
        interpolation=_QUALITY,
    )
    return np.asarray(converted.to_ndarray(), np.uint8)


def _matrix(color: Color, height: int) -> Colorspace:
    return _SWSCALE_MATRIX.get(color.resolved_matrix(height), Colorspace.ITU709)


def _range(color: Color) -> ColorRange:
    return ColorRange.JPEG if color.full_range else ColorRange.MPEG
