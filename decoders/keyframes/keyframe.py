"""Keyframes as they are decoded: AV1 temporal units to RGB, by dav1d through PyAV, and texture.

Texture restores the local contrast that quantisation removed. It is unsharp masking with a strength
for each block: it raises the detail that is left to the energy of the source's, and invents none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.coded_pictures import check_temporal_unit, restore_temporal_unit
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import Color, Picture
from gsvc.codec.bitstream.layers.texture import Texture
from gsvc.codec.bitstream.scaffold import Geometry
from gsvc.codec.media.color import expand_chroma, rgb_from_yuv

STRENGTH = 0.25
"""The share of a block's detail that one unit of gain adds."""


def blur_detail(values: NDArray[np.float32], cell: int) -> NDArray[np.float32]:
    """What a Gaussian filter removes; its sigma is a quarter of a cell, 2 pixels at 288 lines."""
    blurred = cv2.GaussianBlur(values, (0, 0), cell / 4)
    return np.asarray(np.subtract(values, blurred, out=blurred), np.float32)


def raise_texture(picture: Picture, texture: Texture | None) -> tuple[Picture, NDArray[np.float32]]:
    """The picture, RGB uint8 (H, W, 3), with its detail raised, and by which share of its detail
    each pixel was, float32 (H, W), 0 to 1.75, interpolated between the centres of blocks.

    Decoding ends so (`Keyframe.of`), and the encoder shows itself its coded pictures so.
    """
    height, width = picture.shape[:2]
    if texture is None or not texture.gains.any():
        return picture, np.zeros((height, width), np.float32)
    (rows, columns), cell = texture.gains.shape, Geometry(width, height).cell
    side = cell << texture.block_log2
    strength = texture.gains.astype(np.float32) * np.float32(STRENGTH)
    large = cv2.resize(strength, (columns * side, rows * side), interpolation=cv2.INTER_LINEAR)
    gain = np.asarray(large[:height, :width], np.float32)
    raised = blur_detail(picture.astype(np.float32), cell)
    raised *= gain[..., None]
    raised += picture
    return np.asarray(np.clip(np.rint(raised, out=raised), 0, 255, out=raised), np.uint8), gain


FINEST_SCALE, COARSEST_CRF = 8, 70
_LAYERS_ABOVE = 3


def temporal_layer(number: int) -> int:
    """The temporal layer, 0 to 3, of a group's coded picture `number`: mini-groups have 8."""
    place = number % (1 << _LAYERS_ABOVE)
    return _LAYERS_ABOVE - (place & -place).bit_length() + 1 if place else 0


@dataclass(frozen=True)
class Keyframe:
    """A decoded keyframe, ready to be refined."""

    picture: Picture
    """RGB uint8 (H, W, 3), its texture raised."""
    gain: NDArray[np.float32]
    """How much of its detail was added to it, float32 (H, W), 0 to 1.75."""
    quantizer: float
    """crf / 70, at most 1."""
    size: float
    """The share of the side at which it was coded, above 0, at most 1."""
    layer: int = 0
    """Its temporal layer, 0 to 3; 0 is the sharpest."""
    guide: int | None = None
    """How the encoder would have it restored, an index of `MIXTURES`; None: as usual."""

    @classmethod
    def of(
        cls,
        decoded: Picture,
        texture: Texture | None,
        crf: float,
        scale: int,
        layer: int = 0,
        guide: int | None = None,
    ) -> "Keyframe":
        """Raise the texture of a decoded picture, RGB uint8 (H, W, 3).

        `crf`: its quantiser, 1 to 70; `scale`: its coded size in eighths of the display size.
        """
        quantizer, size = min(1.0, crf / COARSEST_CRF), min(1.0, scale / FINEST_SCALE)
        return cls(*raise_texture(decoded, texture), quantizer, size, layer, guide)


class KeyframeDecoder:
    """Decodes the coded pictures of one group, in order.

    `size` is the display size (width, height): pictures coded smaller are enlarged with Lanczos.
    `companded`: their chroma is expanded.
    """

    def __init__(self, size: tuple[int, int], color: Color, *, companded: bool = False) -> None:
        self._size, self._companded = size, companded
        self.count = 0
        """Pictures decoded so far."""
        self._color = color.resolved(size[1])
        decoder = av.CodecContext.create("libdav1d", "r")
        assert isinstance(decoder, av.VideoCodecContext)
        self._decoder = decoder
        # One frame in, one frame out: with frame threads dav1d would hold pictures back.
        # The pixel limit keeps a damaged sequence header from claiming memory.
        limit = (size[0] + 1) * (size[1] + 1)
        self._decoder.options = {"max_frame_delay": "1", "max_pixels": str(limit)}
        self._decoder.thread_count = 1

    def decode(self, unit: bytes, coded_size: tuple[int, int], *, luma: bool = False) -> Picture:
        """Decode one temporal unit: RGB uint8 (H, W, 3), at the size to show.

        `luma`: give only that, (H, W): sooner, as one plane in place of three is enlarged.
        Raises BitstreamError when it is not one picture of `coded_size`.
        """
        return self.decode_lazily(unit, coded_size, luma=luma)()

    def decode_lazily(
        self, unit: bytes, coded_size: tuple[int, int], *, luma: bool = False
    ) -> Callable[[], Picture]:
        """As `decode`, but the picture is made when the result is called."""
        check_temporal_unit(unit, coded_size)
        try:
            frames = self._decoder.decode(av.Packet(restore_temporal_unit(unit)))
        except av.FFmpegError as error:
            raise BitstreamError(
                f"a coded picture does not decode ({error.strerror}): its packet is damaged, or of "
                "another stream than the header"
            ) from error
        if len(frames) != 1 or (frames[0].width, frames[0].height) != coded_size:
            raise BitstreamError("a coded picture is not the one that its packet declares")
        if self._companded and frames[0].format.name != "yuv420p":
            raise BitstreamError("chroma is companded in a picture that is not of 8 bits in 4:2:0")
        self.count += 1
        return partial(self._picture, frames[0], luma=luma)

    def _picture(self, frame: av.VideoFrame, *, luma: bool) -> Picture:
        picture = rgb_from_yuv(expand_chroma(frame) if self._companded else frame, self._color)
        if luma:
            picture = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)
        coded_size = frame.width, frame.height
        width, height = self._size
        if coded_size == (width + width % 2, height + height % 2):
            return picture[:height, :width]
        return np.asarray(
            cv2.resize(picture, self._size, interpolation=cv2.INTER_LANCZOS4), np.uint8
        )


def decode_keyframes(
    units: Sequence[bytes], geometry: Geometry, scale: int, color: Color, *, companded: bool = False
) -> Iterator[Picture]:
    """The first coded pictures of a group at display size, RGB uint8 (H, W, 3).

    `scale`: their coded size in eighths of it. Raises BitstreamError.
    """
    decoder = KeyframeDecoder((geometry.width, geometry.height), color, companded=companded)
    size = geometry.coded_size(scale)
    return (decoder.decode(unit, size) for unit in units)
