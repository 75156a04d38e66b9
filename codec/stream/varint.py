"""Variable-length unsigned integers: little-endian base 128 (LEB128), at most 5 bytes."""

from collections.abc import Callable

from gsvc.codec.errors import BitstreamError


def varint(value: int) -> bytes:
    """Encode 0 <= `value` < 2^35. Raises ValueError beyond."""
    if not 0 <= value < 1 << 35:
        raise ValueError(f"{value} does not fit a varint")
    result = bytearray()
    while value >= 128:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def read_varint(take: Callable[[int], bytes]) -> int:
    """Decode the bytes that `take(1)` returns, one a call. Raises BitstreamError above 5 bytes."""
    value = 0
    for shift in range(0, 35, 7):
        byte = take(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise BitstreamError("a varint has more than 5 bytes: the stream is damaged")


class Cutter:
    """Reads `data` piece by piece from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes. Raises BitstreamError beyond the end."""
        if count > len(self._data) - self._position:
            raise BitstreamError("a packet is shorter than it says: the stream is damaged")
        self._position += count
        return self._data[self._position - count : self._position]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return self._position == len(self._data)

    def rest(self) -> bytes:
        """The remaining bytes."""
        return self.take(len(self._data) - self._position)
