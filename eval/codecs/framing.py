"""Length-prefixed parts, for codecs whose bitstream has no framing of its own."""

from collections.abc import Iterable, Iterator

from gsvc.codec.stream.varint import Cutter, read_varint, varint


def join_parts(parts: Iterable[bytes]) -> bytes:
    """Each part after its length, a varint."""
    return b"".join(varint(len(part)) + part for part in parts)


def split_parts(data: bytes) -> Iterator[bytes]:
    """The parts, one by one. Raises BitstreamError where the lengths do not fit the data."""
    cutter, left = Cutter(data), len(data)
    while left:
        size = read_varint(cutter.take)
        yield cutter.take(size)
        left -= len(varint(size)) + size
