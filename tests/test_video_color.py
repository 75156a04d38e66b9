"""Colour of video files: read and written as they name it, refused where it cannot be kept."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream
from PIL import Image

from forked import exit_code_of_fork, needs_fork
from gsvc import Color, Frame, Picture, UnsupportedInputError, VideoFormat
from gsvc.codec.bitstream.coded_pictures import restore_temporal_unit
from gsvc.codec.media.color import rgb_from_yuv, yuv_from_rgb
from gsvc.codec.media.video_writer import open_writer
from gsvc.decoders.keyframes.keyframe import KeyframeDecoder
from gsvc.encoders.svt_av1 import encode_pictures
from video_clips import CFR, Clip, index_of, read, refused, scene

MATRICES = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}
COLORS = [Color(matrix=matrix, full_range=full) for matrix in MATRICES for full in (False, True)]


def exact_yuv(rgb: Sequence[int], color: Color) -> list[float]:
    """ITU-T H.273, equations 38 to 40, 8 bits."""
    kr, kb = MATRICES[color.matrix]
    r, g, b = (value / 255 for value in rgb)
    y = kr * r + (1 - kr - kb) * g + kb * b
    cb, cr = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
    if color.full_range:
        return [255 * y, 255 * cb + 128, 255 * cr + 128]
    return [219 * y + 16, 224 * cb + 128, 224 * cr + 128]


def exact_rgb(yuv: Sequence[float], color: Color) -> list[float]:
    kr, kb = MATRICES[color.matrix]
    y, cb, cr = yuv[0], yuv[1] - 128, yuv[2] - 128
    y, cb, cr = (
        (y / 255, cb / 255, cr / 255) if color.full_range else ((y - 16) / 219, cb / 224, cr / 224)
    )
    r, b = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    g = (y - kr * r - kb * b) / (1 - kr - kb)
    return [min(255.0, max(0.0, 255 * value)) for value in (r, g, b)]


PATCHES = [(0, 0, 0), (255, 255, 255), (200, 30, 40), (20, 180, 60), (10, 20, 230), (128, 128, 128)]


def flat(rgb: Sequence[int]) -> Picture:
    return np.full((16, 16, 3), rgb, np.uint8)


@pytest.mark.parametrize("color", COLORS, ids=str)
def test_rgb_to_yuv_agrees_with_the_standard(color: Color) -> None:
    for rgb in PATCHES:
        frame = yuv_from_rgb(flat(rgb), color, "yuv420p")
        got = [np.frombuffer(bytes(plane), np.uint8)[0] for plane in frame.planes]
        np.testing.assert_allclose(got, np.clip(exact_yuv(rgb, color), 0, 255), atol=1.1)


@pytest.mark.parametrize("color", COLORS, ids=str)
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p", "yuv420p10le"])
def test_files_are_read_with_the_matrix_and_range_they_name(
    tmp_path: Path, color: Color, pixel_format: str
) -> None:
    values = [(16, 128, 128), (235, 128, 128), (81, 90, 200), (145, 54, 34), (120, 180, 90)]
    path = tmp_path / "a.mkv"
    _write_yuv(path, values, color, pixel_format)
    form, frames = read(path)
    assert form.color == color
    for yuv, frame in zip(values, frames, strict=True):
        np.testing.assert_allclose(frame.pixels[8, 8], exact_rgb(yuv, color), atol=0.75)


def _write_yuv(
    path: Path, values: Sequence[tuple[int, int, int]], color: Color, pixel_format: str
) -> None:
    deep = pixel_format.endswith("10le")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        assert isinstance(stream, VideoStream)
        stream.width = stream.height = 16
        stream.pix_fmt = pixel_format
        stream.codec_context.colorspace = color.matrix
        stream.codec_context.color_range = 2 if color.full_range else 1
        for index, yuv in enumerate(values):
            frame = av.VideoFrame(16, 16, pixel_format)
            for plane, value in zip(frame.planes, yuv, strict=True):
                kind = np.uint16 if deep else np.uint8
                size = plane.buffer_size // np.dtype(kind).itemsize
                plane.update(np.full(size, value * (4 if deep else 1), kind).tobytes())
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.mark.parametrize("height", [576, 578])
def test_an_unnamed_matrix_is_guessed_by_height(height: int) -> None:
    color = Color()
    guessed = Color(matrix=6 if height == 576 else 1)
    yuv = yuv_from_rgb(np.full((height, 16, 3), (200, 30, 40), np.uint8), color, "yuv444p")
    got = [np.frombuffer(bytes(plane), np.uint8)[0] for plane in yuv.planes]
    np.testing.assert_allclose(got, exact_yuv((200, 30, 40), guessed), atol=1)
    assert np.abs(rgb_from_yuv(yuv, color)[0, 0].astype(int) - (200, 30, 40)).max() <= 2


def test_pictures_coded_smaller_keep_the_matrix_of_their_video() -> None:
    """Other decoders, and players of mapped streams, know only the video's own height."""
    picture = np.full((640, 64, 3), (200, 30, 40), np.uint8)
    size = (32, 320)
    (unit,) = encode_pictures([picture], size=size, crf=10, color=Color())
    decoder = av.CodecContext.create("libdav1d", "r")
    assert isinstance(decoder, av.VideoCodecContext)
    (coded,) = [*decoder.decode(av.Packet(restore_temporal_unit(unit))), *decoder.decode(None)]
    middles = [np.asarray(plane)[plane.width * plane.height // 2] for plane in coded.planes]
    np.testing.assert_allclose(middles, exact_yuv((200, 30, 40), Color(matrix=1)), atol=3)
    shown = KeyframeDecoder((64, 640), Color()).decode(unit, size)
    assert np.abs(shown.astype(int) - picture).max() <= 5


@pytest.mark.parametrize("color", COLORS, ids=str)
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
def test_written_files_name_their_colour_and_hold_it(
    tmp_path: Path, color: Color, suffix: str
) -> None:
    tagged = Color(1, 1, color.matrix, color.full_range)
    path = tmp_path / f"a.{suffix}"
    with open_writer(path, VideoFormat(16, 16, CFR, Fraction(25), color=tagged)) as writer:
        for index, rgb in enumerate(PATCHES):
            writer.write(Frame(flat(rgb), index))
    form, frames = read(path)
    assert form.color == tagged
    for rgb, frame in zip(PATCHES, frames, strict=True):
        assert np.abs(frame.pixels[8, 8].astype(int) - rgb).max() <= 5


def test_yuvj_is_full_range(tmp_path: Path) -> None:
    clip = Clip([flat((250, 250, 250))], "libx264", "yuvj420p", CFR)
    form, frames = read(clip.write(tmp_path / "a.mp4"))
    assert form.color.full_range
    assert abs(int(frames[0].pixels[8, 8, 0]) - 250) <= 2


@pytest.mark.parametrize(("tag", "stored", "shown"), [(0, 100, 100), (1, 126, 128), (2, 100, 100)])
def test_grey_is_read_in_its_range(tmp_path: Path, tag: int, stored: int, shown: int) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        assert isinstance(stream, VideoStream)
        stream.width = stream.height = 16
        stream.pix_fmt = "gray"
        stream.codec_context.color_range = tag
        frame = av.VideoFrame.from_ndarray(np.full((16, 16), stored, np.uint8), "gray")
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    _, frames = read(path)
    assert frames[0].pixels.shape == (16, 16, 3)
    assert (frames[0].pixels == shown).all()


@pytest.mark.parametrize("name", ["rgb24", "rgb555be", "rgb555le", "gbrp10le", "yuva422p"])
def test_any_pixel_format_shows_its_colour(tmp_path: Path, name: str) -> None:
    codec, suffix = ("ffv1", "mkv") if name[0] in "gy" else ("rawvideo", "mov")
    suffix = "avi" if name == "rgb555le" else suffix
    path = Clip([flat((200, 30, 40))], codec, name, CFR).write(tmp_path / f"a.{suffix}")
    [frame] = read(path)[1]
    assert np.abs(frame.pixels.astype(int) - (200, 30, 40)).max() < 9


def test_a_tiff_of_ycbcr_is_full_range(tmp_path: Path) -> None:
    picture = Image.fromarray(flat((200, 30, 40)))
    picture.convert("YCbCr").save(tmp_path / "a.tif")
    [frame] = read(tmp_path / "a.tif")[1]
    assert np.abs(frame.pixels.astype(int) - (200, 30, 40)).max() < 4


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_is_refused(tmp_path: Path, transfer: int, name: str) -> None:
    tags = {"color_trc": transfer, "color_primaries": 9, "colorspace": 9}
    clip = Clip([scene(0)], pixel_format="yuv420p10le", tags=tags)
    message = refused(UnsupportedInputError, clip.write(tmp_path / "a.mkv"))
    assert name in message and "tonemap" in message


def test_alpha_is_refused(tmp_path: Path) -> None:
    veiled = np.dstack([scene(0), np.full((48, 64), 200, np.uint8)])
    inside = Clip([veiled], pixel_format="yuva420p").write(tmp_path / "a.mkv")
    beside = Clip([scene(0)], "libvpx-vp9", "yuva420p", CFR).write(tmp_path / "a.webm")
    sticker = _gif(tmp_path / "a.gif", opaque=False)
    for source in (inside, beside, sticker):
        assert "alpha" in refused(UnsupportedInputError, source)


def test_a_gif_and_a_screenshot_are_opaque_though_they_could_have_alpha(tmp_path: Path) -> None:
    form, frames = read(_gif(tmp_path / "a.gif", opaque=True))
    assert form.frame_rate == 10 and [frame.pts * form.time_base for frame in frames] == [
        Fraction(index, 10) for index in range(3)
    ]
    assert [round(index_of(frame.pixels) / 20) for frame in frames] == [0, 1, 2]
    Clip([scene(3)], "png", "rgba", CFR).write(tmp_path / "a1.png")
    [frame] = read(str(tmp_path / "*.png"))[1]
    np.testing.assert_array_equal(frame.pixels, scene(3))


def _gif(path: Path, *, opaque: bool) -> Path:
    with av.open(str(path), "w", format="gif") as container:
        stream = container.add_stream("gif", rate=10)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height = 64, 48
        stream.pix_fmt = "rgb8" if opaque else "pal8"
        for index in range(3):
            frame = av.VideoFrame.from_ndarray(scene(20 * index), "rgb24")
            if opaque:
                frame = frame.reformat(format="rgb8")
            else:
                palette = np.zeros((256, 4), np.uint8)  # the pixels' colour 0 is transparent
                pixels = np.zeros((48, 64), np.uint8), palette
                frame = av.VideoFrame.from_ndarray(pixels, "pal8")  # type: ignore[arg-type]
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@needs_fork
def test_a_forked_process_converts_after_its_parent_did() -> None:
    def convert() -> None:
        rgb_from_yuv(yuv_from_rgb(np.zeros((288, 512, 3), np.uint8), Color()), Color())

    convert()
    assert exit_code_of_fork(convert, seconds=30) == 0
