"""Where a file ends by what it says itself, in bytes: one that ends elsewhere is cut off.

A container's durations and counts are often wrong in files that are whole; its sizes hardly ever.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from av.container import InputContainer
from av.video.stream import VideoStream

_MP4 = "mov"
_TS_PACKETS = 188, 192, 204
"""Bytes of an MPEG-TS packet: as broadcast, with time code, with parity."""
_PS_SECTORS = 2048, 2324
"""Bytes of a sector of MPEG-PS: of DVDs and recorders, of video CDs."""
_ASF_FILE = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""The mark of the object that tells of the file; its size stands 40 bytes later."""
_LONGEST_PAGE = 65_307


def breaks_off(container: InputContainer, stream: VideoStream, source: str | Path) -> bool:
    """Whether it ends before an end that is never stated wrongly."""
    is_sure = any(name in container.format.name for name in (_MP4, "matroska"))
    return is_sure and 0 < container.size < stated_end(container, stream, source)


def stated_end(container: InputContainer, stream: VideoStream, source: str | Path) -> int:
    """The byte at which a file ends by the index of a stream (MP4) or by what it says, or where
    its last part would; 0: it says none, or is a pipe, which is not to be opened again."""
    if container.size <= 0:
        return 0
    if _MP4 in container.format.name:
        return max((each.pos + each.size for each in stream.index_entries), default=0)
    with suppress(OSError, IndexError), open(source, "rb") as file:  # a URL, or not so
        for name, end in _ENDS.items():
            if name in container.format.name.split(","):
                return end(file, container.size)
    return 0


def _matroska(file: BinaryIO, _: int) -> int:
    """Its two outermost elements are the EBML header and the segment (RFC 9559, section 4.5): a
    mark of four bytes, then the size in as many bytes as the first has leading zero bits, and one.
    """
    for _ in range(2):
        file.read(4)
        first = file.read(1)[0]
        length = 8 - first.bit_length()
        rest = file.read(length)
        size = int.from_bytes(bytes((first,)) + rest) - (1 << 7 * length + 7)
        begin = file.tell()
        file.seek(begin + size)
    is_unknown = size == (1 << 7 * length + 7) - 1
    return 0 if is_unknown else begin + size


def _avi(file: BinaryIO, _: int) -> int:
    """Its outermost chunks have four letters, RIFF, and their size in four bytes."""
    end = 0
    while file.read(4) == b"RIFF":
        size = int.from_bytes(file.read(4), "little")
        end = file.tell() + size
        file.seek(end + size % 2)
        if not 0 < size < 0xFFFF_0000:  # never finished
            return 0
    return end


def _asf(file: BinaryIO, _: int) -> int:
    told = file.read(_LONGEST_PAGE).partition(_ASF_FILE)[2]
    return int.from_bytes(told[24:32], "little")


def _ogg(file: BinaryIO, size: int) -> int:
    """Its last page is marked as the end of a track (RFC 3533, section 6); behind any other comes
    one more."""
    file.seek(max(0, size - _LONGEST_PAGE))
    page = b"OggS" + file.read().rpartition(b"OggS")[2]
    if len(page) < 27 or not page[5] & 4:
        return size + 1
    return size - len(page) + 27 + page[26] + sum(page[27 : 27 + page[26]])


def _ts(_: BinaryIO, size: int) -> int:
    return size if any(size % packet == 0 for packet in _TS_PACKETS) else size + 1


def _ps(file: BinaryIO, size: int) -> int:
    """In sectors, if a part begins with the second one."""
    data = file.read(max(_PS_SECTORS) + 4)
    for sector in _PS_SECTORS:
        if data[sector : sector + 3] == b"\0\0\1" and data[sector + 3] >= 0xB9:
            return size + -size % sector
    return 0


def _dv(file: BinaryIO, size: int) -> int:
    """In frames of ten or twelve sequences, by its first block."""
    return size + -size % (144_000 if file.read(4)[3] & 0x80 else 120_000)


_ENDS: dict[str, Callable[[BinaryIO, int], int]] = {
    "matroska": _matroska,
    "avi": _avi,
    "asf": _asf,
    "ogg": _ogg,
    "mpegts": _ts,
    "mpeg": _ps,
    "dv": _dv,
}
"""By FFmpeg's name of the container."""
