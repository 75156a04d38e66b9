"""PNG files, with what Python has: RFC 2083."""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUECOLOUR = 2
_SUB = 1
"""A filter: each byte less that of the pixel before."""


def write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """Write RGB uint8 (H, W, 3), whole or not at all."""
    height, width = picture.shape[:2]
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 0] = _SUB
    lines[:, 1:] = picture.reshape(height, -1)
    lines[:, 4:] -= picture.reshape(height, -1)[:, :-3]
    header = struct.pack(">IIBBBBB", width, height, 8, _TRUECOLOUR, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")
    part = path.with_name(path.name + ".part")
    part.write_bytes(_SIGNATURE + b"".join(_chunk(*each) for each in parts))
    part.replace(path)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
