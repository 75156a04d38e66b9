"""The little of AV1's bitstream that gsvc touches: open bitstream units (AV1 specification, section 5.3)."""

from collections.abc import Iterator

from gsvc.codec.errors import BitstreamError

TEMPORAL_DELIMITER = 2
PADDING = 15


def strip_temporal_unit(unit: bytes) -> bytes:
    """Drop what a packet says already: temporal delimiters, padding, and the size of the last bitstream unit."""
    kept = [obu for kind, obu in _split(unit) if kind not in (TEMPORAL_DELIMITER, PADDING)]
    return b"".join((*kept[:-1], *map(_without_size, kept[-1:])))


def _without_size(obu: bytes) -> bytes:
    """A bitstream unit that reaches to the end of its temporal unit (AV1, section 5.3.1: obu_has_size_field)."""
    head = 1 + (obu[0] >> 2 & 1)
    _, start = _leb128(obu, head)
    return bytes([obu[0] & ~0b10]) + obu[1:head] + obu[start:]


def restore_temporal_unit(stripped: bytes) -> bytes:
    """Put back the temporal delimiter that `strip_temporal_unit` took away."""
    return bytes([TEMPORAL_DELIMITER << 3 | 0b10, 0]) + stripped


def _split(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        start = position
        head = data[position]
        kind, has_extension, has_size = head >> 3 & 15, head >> 2 & 1, head >> 1 & 1
        position += 1 + has_extension
        if not has_size:
            raise BitstreamError("an AV1 unit without a size field cannot be split: re-encode it")
        size, position = _leb128(data, position)
        position += size
        if position > len(data):
            raise BitstreamError("an AV1 unit runs past its temporal unit: the picture is damaged")
        yield kind, data[start:position]


def _leb128(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if not byte & 128:
            return value, position
    raise BitstreamError("an AV1 unit has a bad size field: the picture is damaged")
