"""Parts of a stream behind their lengths, for codecs whose parts do not say where they end."""

from collections.abc import Iterable, Iterator

from gsvc.codec.stream.varint import Cutter, read_varint, varint


def join_parts(parts: Iterable[bytes]) -> bytes:
    """Each part behind its length, a varint."""
    return b"".join(varint(len(part)) + part for part in parts)


def split_parts(data: bytes) -> Iterator[bytes]:
    """The parts again, one by one. Raises BitstreamError where the lengths do not fit the data."""
    cutter, left = Cutter(data), len(data)
    while left:
        size = read_varint(cutter.take)
        yield cutter.take(size)
        left -= len(varint(size)) + size
