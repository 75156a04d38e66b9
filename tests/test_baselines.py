from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.frames import Picture
from gsvc.eval.baselines import Encoded, encode_svtav1, encode_x265, nearest_rate
from gsvc.eval.metrics import psnr_y

Encoder = Callable[..., Encoded]
ENCODERS = [pytest.param(encode_x265, id="x265"), pytest.param(encode_svtav1, id="svtav1")]


def moving(count: int = 12, height: int = 192, width: int = 256) -> list[Picture]:
    """Soft shapes and saturated colours that move by two pixels a frame."""
    y, x = np.mgrid[0:height, 0:width]
    frames = []
    for index in range(count):
        along = x + 2 * index
        planes = [
            128 + 100 * np.sin(along / 17) * np.cos(y / 11),
            60 + 60 * np.cos((along + y) / 23),
            200 - 40 * np.sin(y / 9),
        ]
        frames.append(np.stack(planes, axis=2).clip(0, 255).astype(np.uint8))
    return frames


def nal_types(stream: bytes) -> list[int]:
    """Types of the HEVC NAL units of an Annex B stream (ITU-T H.265, 7.3.1.2)."""
    return [part[0] >> 1 & 63 for part in stream.split(b"\0\0\1")[1:]]


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("scale", [1.0, 1 / 2, 1 / 3])
def test_frames_come_back_in_order_and_at_full_size(encode: Encoder, scale: float) -> None:
    source = moving()
    encoded = encode(source, Fraction(25), 20, scale=scale)
    assert [frame.shape for frame in encoded.frames] == [frame.shape for frame in source]
    right = psnr_y(source, encoded.frames)
    assert right.min() > (36 if scale == 1 else 30)
    # A neighbouring frame is always further away: nothing is mis-paired by B-frames.
    assert (right[1:] > psnr_y(source[:-1], encoded.frames[1:])).all()


@pytest.mark.parametrize("encode", ENCODERS)
def test_colours_survive(encode: Encoder) -> None:
    source = moving(4)
    decoded = encode(source, Fraction(25), 5).frames
    shift = np.mean(
        [b.astype(float) - a for a, b in zip(source, decoded, strict=True)], axis=(0, 1, 2)
    )
    assert np.abs(shift).max() < 0.7


@pytest.mark.parametrize("encode", ENCODERS)
def test_rate_counts_the_stream_over_the_pixels_shown(encode: Encoder) -> None:
    encoded = encode(moving(), Fraction(25), 40, scale=0.5)
    assert encoded.bits == 8 * len(encoded.data)
    assert encoded.bpp == encoded.bits / (12 * 192 * 256)
    assert encoded.settings["crf"] == 40
    assert encoded.encode_seconds > 0
    assert encoded.decode_seconds > 0


@pytest.mark.parametrize("encode", ENCODERS)
def test_same_frames_give_the_same_bytes(encode: Encoder) -> None:
    assert encode(moving(), Fraction(25), 45).data == encode(moving(), Fraction(25), 45).data


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("count", [1, 2])
def test_very_short_clips_and_odd_sizes(encode: Encoder, count: int) -> None:
    source = moving(count, height=75, width=99)
    decoded = encode(source, Fraction(30000, 1001), 20).frames
    assert psnr_y(source, decoded).min() > 36


def test_x265_stream_holds_no_info_and_its_parameter_sets_once() -> None:
    video, sequence, picture, sei = 32, 33, 34, 39
    types = nal_types(encode_x265(moving(20), Fraction(4), 40).data)
    assert [types.count(kind) for kind in (video, sequence, picture, sei)] == [1, 1, 1, 0]
    random_access = [kind for kind in types if 16 <= kind <= 21]
    assert len(random_access) == 2, "one every four seconds, 16 frames at this frame rate"


def test_svtav1_has_a_random_access_point_every_four_seconds() -> None:
    sequence_header = bytes([1 << 3 | 2])
    delimiter = bytes([2 << 3 | 2, 0])
    stream = encode_svtav1(moving(20), Fraction(4), 40).data
    assert stream.count(delimiter + sequence_header) == 2


def test_nearest_rate_finds_what_a_full_search_finds() -> None:
    source = moving()

    def encode(crf: int, scale: float) -> Encoded:
        return encode_x265(source, Fraction(25), crf, "ultrafast", scale)

    rates = {crf: encode(crf, 1.0).bpp for crf in range(24, 52)}
    calls: list[int] = []

    def counted(crf: int, scale: float) -> Encoded:
        calls.append(crf)
        return encode(crf, scale)

    target = 1.02 * rates[37]
    found = nearest_rate(counted, target, crfs=(24, 51))
    assert abs(np.log(found.bpp / target)) == min(
        abs(np.log(rate / target)) for rate in rates.values()
    )
    assert len(calls) <= 7


def test_nearest_rate_outside_the_range_gives_its_end() -> None:
    def encode(crf: int, scale: float) -> Encoded:
        return encode_x265(moving(3), Fraction(25), crf, "ultrafast", scale)

    assert nearest_rate(encode, 1e-6, crfs=(30, 51)).settings["crf"] == 51
    assert nearest_rate(encode, 1e6, crfs=(30, 51)).settings["crf"] == 30
    assert nearest_rate(encode, 1e-6, crfs=(51, 51), scales=(1.0, 0.5)).settings["scale"] == 0.5


@pytest.mark.parametrize("encode", ENCODERS)
def test_settings_out_of_range_are_refused(encode: Encoder) -> None:
    with pytest.raises(ConfigError, match="crf 64"):
        encode(moving(1), Fraction(25), 64)
    with pytest.raises(ConfigError, match="scale 2"):
        encode(moving(1), Fraction(25), 40, scale=2)
    with pytest.raises(ConfigError, match="64 pixels a side"):
        encode(moving(1), Fraction(25), 40, scale=0.2)
    with pytest.raises(InputError, match="at least one"):
        encode([], Fraction(25), 40)
    with pytest.raises(ConfigError, match="positive target"):
        nearest_rate(lambda crf, scale: encode(moving(1), Fraction(25), crf), 0, crfs=(30, 51))
