"""AV1 temporal units: delimiters come off and go back, damage is noticed."""

import random

import pytest

from gsvc import BitstreamError
from gsvc.codec.bitstream.coded_pictures import restore_temporal_unit, strip_temporal_unit

DELIMITER = bytes([0x12, 0])
SEQUENCE = bytes([0x0A, 3, 1, 2, 3])
FRAME = bytes([0x32, 0x80 | 2, 1, *range(130)])
EXTENDED_FRAME = bytes([0x36, 0x20, 2, 8, 9])
PADDING = bytes([0x7A, 4, 0, 0, 0, 0x80])


def test_delimiters_padding_and_the_last_size_come_off() -> None:
    unit = DELIMITER + SEQUENCE + FRAME + PADDING + EXTENDED_FRAME
    assert strip_temporal_unit(unit) == SEQUENCE + FRAME + bytes([0x34, 0x20, 8, 9])
    assert restore_temporal_unit(SEQUENCE + FRAME) == DELIMITER + SEQUENCE + FRAME


@pytest.mark.parametrize(
    "unit",
    [b"\x32", b"\x36\x20", FRAME[:-1], b"\x32" + b"\xff" * 9, b"\x30abc"],
    ids=["no size", "no size after extension", "cut", "endless size", "without size field"],
)
def test_damage_is_refused(unit: bytes) -> None:
    with pytest.raises(BitstreamError):
        strip_temporal_unit(unit)


def test_any_bytes_split_or_are_refused() -> None:
    source, refused = random.Random(4), 0
    for _ in range(300):
        try:
            strip_temporal_unit(source.randbytes(source.randint(0, 30)))
        except BitstreamError:
            refused += 1
    assert 0 < refused < 300
