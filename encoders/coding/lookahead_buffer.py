"""The lookahead buffer: source frames that wait to be coded, in little memory.

Frames wait as they came, or packed where memory is short. Packed, each is coded without loss and
decoded anew whenever it is looked at: about a third of the memory, for the time that this takes.
Memory that was freed goes back to the system: glibc keeps what threads and coders had.
"""

import ctypes
from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from functools import cache
from threading import Lock
from typing import Any, Final, overload

import av
import numpy as np

from gsvc.codec.bitstream.frames import Picture

_CODEC: Final = "magicyuv"
_RAW_BYTES = 1 << 28
"""Of frames that wait as they came; those beyond are packed."""
_FORMAT = "gbrp"
"""Of FFmpeg's lossless coders of RGB that pack each frame by itself, the fastest: 10 ns to pack a
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


class _Packed:
    """A packed frame."""

    def __init__(self, picture: Picture, packer: _FramePacker) -> None:
        self._data, self._packer = packer.packed(picture), packer

    def picture(self) -> Picture:
        """It, unpacked."""
        return self._packer.unpacked(self._data)


class LookaheadBuffer(Sequence[Picture]):
    """Source frames in order, RGB uint8 (H, W, 3) of one size. A slice of packed ones is packed."""

    def __init__(self, *, packs: bool = False) -> None:
        """`packs`: whether all are packed; else those are that would take too much memory."""
        self._packs = packs
        self._packer: _FramePacker | None = None
        self._held: list[Picture | _Packed] = []

    def append(self, picture: Picture) -> None:
        """Another frame."""
        if not self._packs and len(self._held) * picture.nbytes < _RAW_BYTES:
            self._held.append(picture)
            return
        self._packer = self._packer or _FramePacker(*picture.shape[:2])
        self._held.append(_Packed(picture, self._packer))

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Picture: ...

    @overload
    def __getitem__(self, index: slice) -> "LookaheadBuffer": ...

    def __getitem__(self, index: int | slice) -> "Picture | LookaheadBuffer":
        if isinstance(index, slice):
            some = copy(self)
            some._held = self._held[index]
            return some
        held = self._held[index]
        return held.picture() if isinstance(held, _Packed) else held


class JoinedFrames(Sequence[Picture]):
    """Runs of frames as one; each frame is looked at when it is asked for."""

    def __init__(self, *runs: Sequence[Picture]) -> None:
        self._places = [(run, index) for run in runs for index in range(len(run))]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Picture: ...

    @overload
    def __getitem__(self, index: slice) -> "JoinedFrames": ...

    def __getitem__(self, index: int | slice) -> "Picture | JoinedFrames":
        if isinstance(index, slice):
            some = copy(self)
            some._places = self._places[index]
            return some
        run, place = self._places[index]
        return run[place]


def malloc_trim() -> None:
    """So that resident memory is memory in use. Elsewhere than on glibc nothing happens."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
