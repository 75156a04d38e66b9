"""Decodes coded pictures: AV1 temporal units to RGB, by dav1d through PyAV."""

from collections.abc import Sequence

import av
import cv2
import numpy as np

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Color, Picture
from gsvc.codec.media.color import rgb_from_yuv
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.stream.av1_units import check_temporal_unit, restore_temporal_unit


class PictureDecoder:
    """Decodes the coded pictures of one group, in order.

    `size` is the display size (width, height): pictures coded smaller are enlarged with Lanczos.
    """

    def __init__(self, size: tuple[int, int], color: Color) -> None:
        self._size = size
        self._color = color.resolved(size[1])
        decoder = av.CodecContext.create("libdav1d", "r")
        assert isinstance(decoder, av.VideoCodecContext)
        self._decoder = decoder
        # One frame in, one frame out: with frame threads dav1d would hold pictures back.
        # The pixel limit keeps a damaged sequence header from claiming memory.
        limit = (size[0] + 1) * (size[1] + 1)
        self._decoder.options = {"max_frame_delay": "1", "max_pixels": str(limit)}
        self._decoder.thread_count = 1

    def decode(self, unit: bytes, coded_size: tuple[int, int]) -> Picture:
        """Decode one temporal unit: RGB uint8 (H, W, 3), at the size to show.

        Raises BitstreamError when it is not one picture of `coded_size`.
        """
        check_temporal_unit(unit, coded_size)
        try:
            frames = self._decoder.decode(av.Packet(restore_temporal_unit(unit)))
        except av.FFmpegError as error:
            raise BitstreamError(f"a coded picture does not decode ({error.strerror})") from error
        if len(frames) != 1 or (frames[0].width, frames[0].height) != coded_size:
            raise BitstreamError("a coded picture is not the one that its packet declares")
        picture = rgb_from_yuv(frames[0], self._color)
        width, height = self._size
        if coded_size == (width + width % 2, height + height % 2):
            return picture[:height, :width]
        return np.asarray(
            cv2.resize(picture, self._size, interpolation=cv2.INTER_LANCZOS4), np.uint8
        )


def decode_pictures(
    units: Sequence[bytes], geometry: Geometry, scale: int, color: Color
) -> list[Picture]:
    """The first coded pictures of a group at display size, RGB uint8 (H, W, 3).

    `scale`: their coded size in eighths of it. Raises BitstreamError.
    """
    decoder = PictureDecoder((geometry.width, geometry.height), color)
    size = geometry.coded_size(scale)
    return [decoder.decode(unit, size) for unit in units]
