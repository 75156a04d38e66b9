"""Raw YUV: exact to the last sample, named as in the known sets, refused in one line when wrong."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from gsvc import Color, ConfigError, Frame, InputError, Picture, VideoFormat
from gsvc.codec.media.color import rgb_from_yuv, yuv_from_rgb
from gsvc.codec.media.video_writer import Y4mEncoder
from gsvc.datasets.clips.clip_reader import RawFormat, format_from_name, load_clip, read_raw


def _pictures(width: int, height: int, count: int) -> list[Picture]:
    y, x = np.mgrid[:height, :width]
    return [
        np.dstack([(x * 3 + 7 * i) % 256, (y * 5) % 256, (x + y + 40 * i) % 256]).astype(np.uint8)
        for i in range(count)
    ]


def _write_raw(path: Path, pictures: list[Picture], pixel_format: str) -> Path:
    """As FFmpeg writes it: rows of the planes without padding."""
    with path.open("wb") as file:
        for picture in pictures:
            frame = yuv_from_rgb(picture, Color(), pixel_format)
            wide = 2 if "10" in pixel_format else 1
            for plane in frame.planes:
                rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
                file.write(rows[: plane.height, : plane.width * wide].tobytes())
    return path


def _read_by_ffmpeg(path: Path, form: RawFormat) -> list[Picture]:
    options = {
        "video_size": f"{form.width}x{form.height}",
        "pixel_format": form.pixel_format,
        "framerate": "25",
    }
    with av.open(str(path), format="rawvideo", options=options) as container:
        return [rgb_from_yuv(frame, Color()) for frame in container.decode(video=0)]


@pytest.mark.parametrize("size", [(64, 48), (50, 30), (37, 23)])
@pytest.mark.parametrize("bit_depth", [8, 10])
@pytest.mark.parametrize("chroma", ["420", "422", "444"])
def test_reads_what_ffmpeg_reads(
    tmp_path: Path, size: tuple[int, int], bit_depth: int, chroma: str
) -> None:
    form = RawFormat(*size, Fraction(25), bit_depth, chroma)
    path = _write_raw(tmp_path / "clip.yuv", _pictures(*size, 3), form.pixel_format)
    assert path.stat().st_size == 3 * form.frame_bytes
    ours = list(read_raw(path, form))
    assert len(ours) == 3
    for a, b in zip(ours, _read_by_ffmpeg(path, form), strict=True):
        np.testing.assert_array_equal(a, b)


def test_raw_and_y4m_of_the_same_video_are_equal(tmp_path: Path) -> None:
    pictures = _pictures(64, 48, 4)
    raw = _write_raw(tmp_path / "clip_64x48_30.yuv", pictures, "yuv420p")
    form = VideoFormat(64, 48, Fraction(1, 30), Fraction(30))
    with (tmp_path / "clip.y4m").open("wb") as file:
        encoder = Y4mEncoder(file, form, "clip.y4m")
        for index, picture in enumerate(pictures):
            encoder.write(Frame(picture, index))
    from_raw, from_y4m = (load_clip(path, 3, None) for path in (raw, tmp_path / "clip.y4m"))
    assert from_raw[1] == from_y4m[1] == 30
    np.testing.assert_array_equal(from_raw[0], from_y4m[0])


def test_ten_bits_are_the_eight_bits_and_more(tmp_path: Path) -> None:
    pictures = _pictures(64, 48, 2)
    eight = _write_raw(tmp_path / "a_64x48_25.yuv", pictures, "yuv420p")
    ten = tmp_path / "a_64x48_25_10bit.yuv"
    ten.write_bytes((np.fromfile(eight, np.uint8).astype("<u2") * 4).tobytes())
    difference = np.subtract(load_clip(ten, 2, None)[0], load_clip(eight, 2, None)[0], dtype=int)
    assert abs(difference).max() <= 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BasketballDrive_1920x1080_50", (1920, 1080, 50, 8, "420")),
        ("Kimono1_1920x1080_24_10bit", (1920, 1080, 24, 10, "420")),
        ("Beauty_1920x1080_120fps_420_8bit_YUV", (1920, 1080, 120, 8, "420")),
        ("Beauty_3840x2160_120fps_420_10bit_YUV", (3840, 2160, 120, 10, "420")),
        ("CityAlley_3840x2160_50fps_8bit", (3840, 2160, 50, 8, "420")),
        ("videoSRC01_1920x1080_30", (1920, 1080, 30, 8, "420")),
        ("Tango_4096x2160_60fps_10bit_420_jvet", (4096, 2160, 60, 10, "420")),
        ("EBURainFruits_1920x1080_50_10bit_444", (1920, 1080, 50, 10, "444")),
        ("vidyo1_1280x720p_60fps_8bit_420_120f", (1280, 720, 60, 8, "420")),
        ("old_640x360_23.976fps_yuv422p10le", (640, 360, Fraction(24000, 1001), 10, "422")),
        ("film 720x480 29.97Hz", (720, 480, Fraction(30000, 1001), 8, "420")),
        ("foreman_cif_30fps", (352, 288, 30, 8, "420")),
        ("clip-640x480-12.5fps", (640, 480, Fraction(25, 2), 8, "420")),
    ],
)
def test_names_of_the_known_sets(name: str, expected: tuple[int, int, int, int, str]) -> None:
    assert format_from_name(f"folder_99x99_1/{name}.yuv") == RawFormat(
        expected[0], expected[1], Fraction(expected[2]), expected[3], expected[4]
    )


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("foreman.yuv", "no size"),
        ("foreman_352x288.yuv", "no frame rate"),
        ("foreman_352x288_420.yuv", "no frame rate"),
        ("foreman_352x288_30_12bit.yuv", "8 or 10 bits"),
    ],
)
def test_names_that_do_not_say_enough(name: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        format_from_name(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("missing", "no such file"),
        ("empty", "empty"),
        ("cut", "no whole number of 64x48 8-bit 4:2:0 frames"),
        ("ten bits", "put 10bit into its name"),
        ("folder", "a folder without images"),
    ],
)
def test_bad_raw_files(tmp_path: Path, damage: str, complaint: str) -> None:
    path = tmp_path / "clip_64x48_25.yuv"
    kind = "yuv420p10le" if damage == "ten bits" else "yuv420p"
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        _write_raw(path, _pictures(64, 48, 2), kind)
        size = {"empty": 0, "cut": path.stat().st_size - 1}.get(damage, path.stat().st_size)
        path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=complaint) as caught:
        load_clip(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_eight_bits_read_as_ten(tmp_path: Path) -> None:
    path = _write_raw(tmp_path / "a_64x48_25_10bit.yuv", _pictures(64, 48, 2), "yuv420p")
    with pytest.raises(InputError, match="exceed 1023"):
        load_clip(path)


def test_black_and_dark_are_not_taken_for_ten_bits(tmp_path: Path) -> None:
    path = tmp_path / "black_64x48_25.yuv"
    path.write_bytes(bytes(64 * 48) + bytes([128]) * (64 * 24))
    assert load_clip(path, 1, None)[0][0].max() == 0


def test_a_huge_file_is_read_only_as_far_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "long_3840x2160_50fps_10bit.yuv"
    form = format_from_name(path)
    with path.open("wb") as file:
        file.truncate(form.frame_bytes * 1000)  # 25 GB that take no room
    pictures, rate = load_clip(path, frames=2)
    assert [picture.shape for picture in pictures] == [(288, 512, 3)] * 2
    assert rate == 50


def test_impossible_formats_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 or 10 bits"):
        RawFormat(64, 48, Fraction(25), 16)
    with pytest.raises(ConfigError, match="sides"):
        RawFormat(0, 48, Fraction(25))
