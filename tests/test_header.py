"""The sequence header: 32 bytes that come back, and every damage noticed."""

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from google_crc32c import value as crc32c

from gsvc import (
    BitstreamError,
    ChecksumError,
    Color,
    ConfigError,
    Header,
    LimitError,
    Limits,
    Tools,
    TruncatedStreamError,
    VersionError,
    VideoFormat,
)
from gsvc.codec.bitstream.header import FIELDS, HEADER_BYTES, storable_format

VIDEO = VideoFormat(
    width=853,
    height=480,
    time_base=Fraction(1, 90_000),
    frame_rate=Fraction(30_000, 1001),
    pixel_aspect=Fraction(32, 27),
    color=Color(1, 13, 6, full_range=True),
)
HEADER = Header(
    VIDEO,
    3,
    Tools(segmentation=True, pose=False, flow=True, texture=False, camera=False, guide=False),
    audio=True,
    holds=False,
    motion_estimator=1,
    seed=54_321,
    model_id=b"\x01\x02\xfe\xff",
)


def with_crc(body: bytes) -> bytes:
    return body + int(crc32c(body)).to_bytes(4, "little")


def with_field(name: str, value: int) -> bytes:
    """A header with one field overwritten, its checksum right."""
    packed, shift = int.from_bytes(HEADER.to_bytes()[4:-4], "big"), 0
    for field, bits in reversed(FIELDS):
        if field == name:
            packed = packed & ~((1 << bits) - 1 << shift) | value << shift
        shift += bits
    return with_crc(HEADER.to_bytes()[:4] + packed.to_bytes(24, "big"))


def test_header_comes_back_in_32_bytes() -> None:
    data = HEADER.to_bytes()
    assert len(data) == HEADER_BYTES == 32
    assert data[:4] == b"GSV\x01"
    assert Header.from_bytes(data) == HEADER
    assert Header.from_bytes(data).frame_ticks == 3003


def test_literal_bytes_stay() -> None:
    assert replace(HEADER, fitted=False).to_bytes().hex() == LITERAL
    assert HEADER.to_bytes().hex() == FITTED


LITERAL = "4753560106aa0780806c2d34000457e4002eec007b01d4310102feff98a2f25f"
FITTED = "4753560106aa0780806c2d34000457e4002eec007b05d4310102feff496712fa"


@pytest.mark.parametrize("bit", range(8 * HEADER_BYTES))
def test_every_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(HEADER.to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BitstreamError):
        Header.from_bytes(bytes(data))


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_short_header_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedStreamError):
        Header.from_bytes(HEADER.to_bytes()[:size])


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", TruncatedStreamError, "empty"),
        (b"RIFF" + bytes(28), BitstreamError, "not a gsvc stream"),
        (with_crc(b"GSV\x02" + bytes(24)), VersionError, "version 2"),
        (HEADER.to_bytes()[:-1] + b"\0", ChecksumError, "damaged"),
        (with_field("width", 0), BitstreamError, "width is zero"),
        (with_field("frame_ticks_den", 0), BitstreamError, "frame_ticks_den is zero"),
        (with_field("height", 32_767), LimitError, "32767"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, error: type[BitstreamError], message: str) -> None:
    with pytest.raises(error, match=message):
        Header.from_bytes(data)


def test_limits_can_be_tightened_and_widened() -> None:
    with pytest.raises(LimitError, match="853x480"):
        Header.from_bytes(HEADER.to_bytes(), Limits(pixels=1000))
    huge = with_field("height", 32_767)
    assert Header.from_bytes(huge, Limits(side=1 << 15)).format.height == 32_767


def test_any_fields_parse_or_are_refused() -> None:
    source = random.Random(1)
    for _ in range(500):
        try:
            header = Header.from_bytes(with_crc(b"GSV\x01" + source.randbytes(24)))
        except BitstreamError:
            continue
        assert Header.from_bytes(header.to_bytes()) == header


@pytest.mark.parametrize(
    "header",
    [
        replace(HEADER, seed=1 << 16),
        replace(HEADER, level=4),
        replace(HEADER, model_id=bytes([1, 0, 0, 0, 0])),
        replace(HEADER, format=replace(VIDEO, width=1 << 15)),
    ],
)
def test_values_that_do_not_fit_are_refused(header: Header) -> None:
    with pytest.raises(ConfigError):
        header.to_bytes()


@pytest.mark.parametrize(
    ("time_base", "rate"),
    [
        (Fraction(1, 1000), Fraction(30_000, 1001)),
        (Fraction(1, 15_360), Fraction(30)),
        (Fraction(1001, 24_000), Fraction(24_000, 1001)),
        (Fraction(1, 90_000), Fraction(14_985_014, 500_001)),
        (Fraction(1), Fraction(1, 7)),
        (Fraction(1, 90_000), Fraction(1, 11)),
    ],
)
def test_usual_rates_can_be_stored(time_base: Fraction, rate: Fraction) -> None:
    video = storable_format(replace(VIDEO, time_base=time_base, frame_rate=rate))
    assert float(video.frame_rate) == pytest.approx(float(rate), rel=1e-6)
    header = replace(HEADER, format=video)
    assert Header.from_bytes(header.to_bytes()) == header


@pytest.mark.parametrize("rate", [Fraction(1, 3600), Fraction(10**9)])
def test_a_nominal_rate_out_of_range_is_brought_into_it(rate: Fraction) -> None:
    header = replace(HEADER, format=storable_format(replace(VIDEO, frame_rate=rate)))
    assert Header.from_bytes(header.to_bytes()) == header


def test_unusual_times_are_refused() -> None:
    with pytest.raises(ConfigError, match="time base"):
        storable_format(replace(VIDEO, time_base=Fraction(1, 1 << 21)))


def test_the_format_lists_every_field() -> None:
    rows = [f"| `{name}` | {bits} |" for name, bits in FIELDS]
    page = Path(__file__).resolve().parent.parent / "docs" / "format.md"
    assert "\n".join(rows) in page.read_text()
