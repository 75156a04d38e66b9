"""Frames that wait: as they came, packed in memory, or packed in temporary files; runs of them.
And what becomes of the memory that they leave.

Packed, each is coded without loss and decoded anew whenever it is looked at: about a third of the
memory, or none of it, for the time that this takes.
"""

import ctypes
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from fractions import Fraction
from tempfile import TemporaryFile
from threading import Lock
from typing import Final, Generic, NamedTuple, Self, TypeVar, overload
from weakref import finalize

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture

_Held = TypeVar("_Held")
_IN_MEMORY = 1 << 27
"""Bytes of frames that wait in memory; further frames are packed into files."""
_FILE_BYTES = 1 << 26  # bytes of a temporary file, about
_CODEC: Final = "magicyuv"
_FORMAT = "gbrp"
"""The fastest of FFmpeg's lossless coders of RGB that pack each frame by itself: 10 ns to pack a
pixel into .8 to 1.3 bytes, 7 to unpack it. FFV1 packs to .5 to .9, in 40 and 40."""


class _PackFile:
    """A temporary file of packed frames. It is closed when none of them is held any more."""

    def __init__(self) -> None:
        self._file, self.size = TemporaryFile(), 0  # noqa: SIM115 - closed with this object
        finalize(self, self._file.close)

    def append(self, data: bytes) -> "_Filed":
        self._file.seek(self.size)
        self._file.write(data)
        self.size += len(data)
        return _Filed(self, self.size - len(data), len(data))

    def read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)


class _Filed(NamedTuple):
    """A packed frame in a file."""

    file: _PackFile
    start: int
    size: int


class _FramePacker:
    """Packs frames of one size. May be used from several threads."""

    def __init__(self, height: int, width: int) -> None:
        self._size, self._lock, self._count = (width, height), Lock(), 0
        self._file: _PackFile | None = None
        self._coder = self._set_up(av.CodecContext.create(_CODEC, "w"))
        self._coder.time_base = Fraction(1, 25)
        self._decoder = self._set_up(av.CodecContext.create(_CODEC, "r"))

    def packed(self, picture: Picture) -> bytes:
        # PyAV's own conversions take as long as the coder.
        frame = av.VideoFrame(*self._size, _FORMAT)
        for plane, channel in zip(_planes(frame), cv2.split(picture), strict=True):
            plane[:] = channel
        with self._lock:
            frame.pts, self._count = self._count, self._count + 1
            (packet,) = self._coder.encode(frame)
            return bytes(packet)

    def filed(self, data: bytes) -> _Filed:
        with self._lock:
            if self._file is None or self._file.size >= _FILE_BYTES:
                self._file = _PackFile()
            return self._file.append(data)

    def unpacked(self, held: bytes | _Filed) -> Picture:
        with self._lock:
            data = held.file.read(held.start, held.size) if isinstance(held, _Filed) else held
            (frame,) = self._decoder.decode(av.Packet(data))
        return np.asarray(cv2.merge(_planes(frame)), np.uint8)

    def _set_up(self, context: av.CodecContext) -> av.VideoCodecContext:
        assert isinstance(context, av.VideoCodecContext)
        context.width, context.height = self._size
        context.pix_fmt, context.thread_count = _FORMAT, 2
        context.thread_type = "SLICE"
        return context


def _planes(frame: av.VideoFrame) -> list[NDArray[np.uint8]]:
    """Red, green and blue of a `_FORMAT` frame, (H, W) each, which share its memory."""
    rows = (np.frombuffer(memoryview(p), np.uint8).reshape(p.height, -1) for p in frame.planes)
    green, blue, red = (row[:, : frame.width] for row in rows)
    return [red, green, blue]


class _Frames(Sequence[Picture], Generic[_Held]):
    """Pictures in order, RGB uint8 (H, W, 3) of one size, each made when it is looked at."""

    _held: list[_Held]

    def _picture(self, held: _Held) -> Picture:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Picture: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Picture | Self:
        if isinstance(index, slice):
            some = copy(self)
            some._held = self._held[index]
            return some
        return self._picture(self._held[index])


class JoinedFrames(_Frames[tuple[Sequence[Picture], int]]):
    """Runs of frames as one."""

    def __init__(self, *runs: Sequence[Picture]) -> None:
        self._held = [(run, index) for run in runs for index in range(len(run))]

    def _picture(self, held: tuple[Sequence[Picture], int]) -> Picture:
        run, index = held
        return run[index]


class FrameBuffer(_Frames[Picture | bytes | _Filed]):
    """Frames that are waited for. A slice of packed ones is packed."""

    def __init__(self, pictures: Iterable[Picture] = (), *, low_memory: bool = False) -> None:
        """`pictures`: the first; `low_memory`: all are packed, in temporary files; else those that
        would take too much memory.

        Raises OSError where the disk is full and `low_memory`; else all stay in memory then.
        """
        self._low_memory = low_memory
        self._packer: _FramePacker | None = None
        self._held = []
        for picture in pictures:
            self.append(picture)

    def append(self, picture: Picture) -> None:
        """Another frame."""
        waits = not self._low_memory and len(self._held) * picture.nbytes < _IN_MEMORY
        self._held.append(picture if waits else self._packed(picture))

    def _packed(self, picture: Picture) -> bytes | _Filed:
        """A frame in a file, or in memory where the disk is full."""
        self._packer = self._packer or _FramePacker(*picture.shape[:2])
        data = self._packer.packed(picture)
        try:
            return self._packer.filed(data)
        except OSError:
            if self._low_memory:
                raise
            return data

    def _picture(self, held: Picture | bytes | _Filed) -> Picture:
        if isinstance(held, np.ndarray):
            return held
        assert self._packer is not None  # it packed this one
        return self._packer.unpacked(held)


# What glibc does with freed memory; other C libraries are left alone. Once a block of megabytes
# has been freed, it takes smaller ones from its heap, too, where one that stays keeps all below it.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's numbers in <malloc.h>
_LARGEST_KEPT = 2**30
_ELSEWHERE = OSError, TypeError, AttributeError  # no such library, no such function


def keep_freed_memory() -> None:
    """From now on this process reuses what it freed; for workers that do nothing but such work."""
    with suppress(*_ELSEWHERE):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory(smallest: int) -> None:
    """From now on blocks of `smallest` bytes and more go back to the system when they are freed."""
    with suppress(*_ELSEWHERE):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, smallest)


def malloc_trim() -> None:
    """Give freed memory back to the system, once."""
    with suppress(*_ELSEWHERE):
        ctypes.CDLL(None).malloc_trim(0)
