"""Frames that wait in memory, as they came or packed.

Packed, each is coded without loss and decoded anew whenever it is looked at: about a third of the
memory, for the time that this takes.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from fractions import Fraction
from threading import Lock
from typing import Final, overload

import av
import numpy as np

from gsvc.codec.bitstream.frames import Picture

_RAW_BYTES = 1 << 27
"""Bytes of frames that wait unpacked; further frames are packed."""
_CODEC: Final = "magicyuv"
_FORMAT = "gbrp"
"""The fastest of FFmpeg's lossless coders of RGB that pack each frame by itself: 10 ns to pack a
pixel into .8 to 1.3 bytes, 7 to unpack it. FFV1 packs to .5 to .9, in 40 and 40."""


class _FramePacker:
    """Packs frames of one size. May be used from several threads."""

    def __init__(self, height: int, width: int) -> None:
        self._size, self._lock, self._count = (width, height), Lock(), 0
        self._coder = self._set_up(av.CodecContext.create(_CODEC, "w"))
        self._coder.time_base = Fraction(1, 25)
        self._decoder = self._set_up(av.CodecContext.create(_CODEC, "r"))

    def packed(self, picture: Picture) -> bytes:
        frame = av.VideoFrame.from_ndarray(picture, _FORMAT)
        with self._lock:
            frame.pts, self._count = self._count, self._count + 1
            (packet,) = self._coder.encode(frame)
        return bytes(packet)

    def unpacked(self, data: bytes) -> Picture:
        with self._lock:
            (frame,) = self._decoder.decode(av.Packet(data))
        return np.asarray(frame.to_ndarray(), np.uint8)

    def _set_up(self, context: av.CodecContext) -> av.VideoCodecContext:
        assert isinstance(context, av.VideoCodecContext)
        context.width, context.height = self._size
        context.pix_fmt, context.thread_count = _FORMAT, 1
        return context


class FrameBuffer(Sequence[Picture]):
    """Pictures in order, RGB uint8 (H, W, 3) of one size. A slice of packed ones is packed."""

    def __init__(self, pictures: Iterable[Picture] = (), *, packs: bool = False) -> None:
        """`pictures`: the first; `packs`: whether all are packed; else those are that would take
        too much memory."""
        self._packs = packs
        self._packer: _FramePacker | None = None
        self._held: list[Picture | bytes] = []
        for picture in pictures:
            self.append(picture)

    def append(self, picture: Picture) -> None:
        """Another frame."""
        if not self._packs and len(self._held) * picture.nbytes < _RAW_BYTES:
            self._held.append(picture)
            return
        self._packer = self._packer or _FramePacker(*picture.shape[:2])
        self._held.append(self._packer.packed(picture))

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Picture: ...

    @overload
    def __getitem__(self, index: slice) -> "FrameBuffer": ...

    def __getitem__(self, index: int | slice) -> "Picture | FrameBuffer":
        if isinstance(index, slice):
            some = copy(self)
            some._held = self._held[index]
            return some
        held = self._held[index]
        if not isinstance(held, bytes):
            return held
        assert self._packer is not None  # it packed this one
        return self._packer.unpacked(held)
