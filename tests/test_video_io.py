"""Video in and out: what a user's files hold is what comes out, and bad files fail in one line."""

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from gsvc.codec.color import rgb_from_yuv, yuv_from_rgb
from gsvc.codec.errors import (
    ConfigError,
    GsvcError,
    InputError,
    OutputError,
    UnsupportedInputError,
)
from gsvc.codec.frames import Color, Frame, Picture, VideoFormat
from gsvc.codec.output import atomic_output
from gsvc.codec.timestamps import Clock
from gsvc.codec.video_reader import open_video
from gsvc.codec.video_writer import open_writer

CFR = Fraction(1, 25)
MS = Fraction(1, 1000)
VFR_TIMES = [0, 40, 100, 110, 300, 340, 380, 900]


def scene(index: int, width: int = 64, height: int = 48) -> Picture:
    """A smooth picture without symmetry, with `index` (below 60) as the grey of its top left corner."""
    y, x = np.mgrid[:height, :width]
    picture = np.stack([60 + 120 * x / width, 60 + 120 * y / height, 128 + 0 * x], -1).astype(
        np.uint8
    )
    picture[: height // 3, : width // 4] = 4 * index
    return picture


def index_of(picture: Picture) -> int:
    """The index a `scene` was made with, from its top left corner."""
    return round(float(picture[2:8, 2:8].mean()) / 4)


@dataclass
class Clip:
    """A clip to make with PyAV: lossless RGB in Matroska unless told otherwise."""

    pictures: Sequence[Picture]
    codec: str = "ffv1"
    pixel_format: str = "bgr0"
    time_base: Fraction = MS
    times: Sequence[int] | None = None
    options: dict[str, str] = field(default_factory=dict)
    muxer_options: dict[str, str] = field(default_factory=dict)
    rotation: int | None = None
    aspect: Fraction | None = None
    tags: dict[str, int] = field(default_factory=dict)

    def write(self, path: Path, muxer: str | None = None) -> Path:
        height, width = self.pictures[0].shape[:2]
        with av.open(str(path), "w", format=muxer, options=self.muxer_options) as container:
            stream = container.add_stream(self.codec, rate=25, options=self.options)
            assert isinstance(stream, VideoStream)
            stream.width, stream.height, stream.pix_fmt = width, height, self.pixel_format
            stream.time_base = stream.codec_context.time_base = self.time_base
            if self.aspect:
                stream.codec_context.sample_aspect_ratio = self.aspect
            if self.rotation is not None:
                stream.set_display_rotation(self.rotation)
            for name, value in self.tags.items():
                setattr(stream.codec_context, name, value)
            for index, picture in enumerate(self.pictures):
                frame = av.VideoFrame.from_ndarray(picture, "rgb24")
                frame = frame.reformat(format=self.pixel_format)
                due = round(index * CFR / self.time_base)
                frame.pts = self.times[index] if self.times else due
                frame.time_base = self.time_base
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path


def h264(count: int, **more: object) -> Clip:
    """H.264 with B-frames and an intra picture every 12 frames."""
    options = {"preset": "ultrafast", "crf": "5", "g": "12", "bf": "2"}
    pictures = [scene(index) for index in range(count)]
    return Clip(pictures, "libx264", "yuv420p", CFR, options=options, **more)  # type: ignore[arg-type]


def read(source: str | Path, **more: float) -> tuple[VideoFormat, list[Frame]]:
    with open_video(source, **more) as video:  # type: ignore[arg-type]
        return video.format, list(video)


def refused(kind: type[GsvcError], source: str | Path) -> str:
    with pytest.raises(kind) as caught:
        read(source)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Pictures and times


@pytest.mark.parametrize(("width", "height"), [(64, 48), (63, 47), (16, 16), (1, 1)])
@pytest.mark.parametrize("count", [1, 3])
def test_pictures_come_out_exactly(tmp_path: Path, width: int, height: int, count: int) -> None:
    pictures = [scene(index, width, height) for index in range(count)]
    form, frames = read(Clip(pictures).write(tmp_path / "a.mkv"))
    assert (form.width, form.height) == (width, height)
    assert len(frames) == count
    for frame, picture in zip(frames, pictures, strict=True):
        assert frame.pixels.dtype == np.uint8
        np.testing.assert_array_equal(frame.pixels, picture)


@pytest.mark.parametrize("first", [0, 700])
def test_times_of_a_variable_frame_rate_are_kept(tmp_path: Path, first: int) -> None:
    pictures = [scene(index) for index in range(len(VFR_TIMES))]
    times = [first + time for time in VFR_TIMES]
    form, frames = read(Clip(pictures, times=times).write(tmp_path / "a.mkv"))
    assert form.time_base == MS
    assert [frame.pts for frame in frames] == VFR_TIMES


def test_times_finer_than_a_90000th_are_rounded_to_it(tmp_path: Path) -> None:
    times = [0, 33_367, 66_733, 100_100]
    pictures = [scene(index) for index in range(4)]
    clip = Clip(pictures, "libx264", "yuv420p", Fraction(1, 1_000_000), times)
    form, frames = read(clip.write(tmp_path / "a.mp4"))
    assert form.time_base == Fraction(1, 90_000)
    assert [frame.pts for frame in frames] == [0, 3003, 6006, 9009]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([None, None, None], [0, 40, 80]),
        ([0, 40, 40, 41, 200], [0, 40, 80, 120, 200]),
        ([500, 540, 0, 40], [500, 540, 580, 620]),
        ([0, None, 100], [0, 40, 100]),
        ([-80, -40, 0], [-80, -40, 0]),
    ],
)
def test_bad_times_are_repaired(given: list[int | None], expected: list[int]) -> None:
    clock = Clock(MS, Fraction(25))
    assert [clock.stamp(pts) for pts in given] == expected


def test_repaired_times_do_not_drift() -> None:
    clock = Clock(MS, Fraction(30_000, 1001))
    times = [clock.stamp(None) for _ in range(3001)]
    assert times[-1] == round(3000 * 1001 / 30)
    assert all(a < b for a, b in pairwise(times))


def test_a_raw_stream_without_times_runs_at_its_rate(tmp_path: Path) -> None:
    form, frames = read(h264(5).write(tmp_path / "a.h264"))
    assert form.frame_rate == 25
    assert [frame.pts * form.time_base for frame in frames] == [index * CFR for index in range(5)]


# Orientation


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_rotation_is_applied_counter_clockwise(tmp_path: Path, angle: int) -> None:
    picture = scene(0)
    clip = Clip([picture], "libx264", "yuv420p", CFR, rotation=angle, aspect=Fraction(4, 3))
    form, frames = read(clip.write(tmp_path / "a.mp4"))
    expected = np.rot90(picture, angle // 90)
    assert (form.height, form.width) == expected.shape[:2]
    assert form.pixel_aspect == (Fraction(3, 4) if angle in (90, 270) else Fraction(4, 3))
    assert np.abs(frames[0].pixels.astype(int) - expected).mean() < 4


EXIF_TURNS = {
    1: lambda p: p,
    2: lambda p: p[:, ::-1],
    3: lambda p: p[::-1, ::-1],
    4: lambda p: p[::-1],
    5: lambda p: p.swapaxes(0, 1),
    6: lambda p: np.rot90(p, -1),
    7: lambda p: p[::-1, ::-1].swapaxes(0, 1),
    8: lambda p: np.rot90(p, 1),
}


@pytest.mark.parametrize("orientation", EXIF_TURNS)
def test_exif_orientation_of_a_photo_is_applied(tmp_path: Path, orientation: int) -> None:
    picture = scene(3)
    with open_writer(tmp_path / "%d.jpg", VideoFormat(64, 48, CFR, Fraction(25))) as writer:
        writer.write(Frame(picture, 0))
    tiff = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + tiff
    data = (tmp_path / "1.jpg").read_bytes()
    segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    (tmp_path / "photo.jpg").write_bytes(data[:2] + segment + data[2:])
    _, frames = read(str(tmp_path / "ph*.jpg"))
    expected = EXIF_TURNS[orientation](picture)
    assert frames[0].pixels.shape == expected.shape
    assert np.abs(frames[0].pixels.astype(int) - expected).max() < 8


# Where to begin and end


@pytest.fixture(scope="module", params=["mp4", "mkv", "ts", "avi", "y4m", "h264"])
def long_clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / f"a.{request.param}"
    clip = h264(60)
    if request.param == "y4m":
        clip = Clip(clip.pictures, "wrapped_avframe", "yuv444p", CFR)
        return clip.write(path, "yuv4mpegpipe")
    if request.param == "avi":
        clip = Clip(clip.pictures, "mpeg4", "yuv420p", CFR, options={"g": "12", "qmax": "2"})
    return clip.write(path)


@pytest.mark.parametrize(
    ("start", "first"), [(0, 0), (0.04, 1), (0.41, 11), (0.44, 11), (0.48, 12), (2.3, 58)]
)
def test_start_is_exact_to_the_frame(long_clip: Path, start: float, first: int) -> None:
    with open_video(long_clip, start=start, frames=2) as video:
        form, frames = video.format, list(video)
    assert [index_of(frame.pixels) for frame in frames] == [first, first + 1]
    assert [frame.pts * form.time_base for frame in frames] == [0, CFR]


def test_the_expected_number_of_frames_follows_start_and_limit(tmp_path: Path) -> None:
    path = h264(60).write(tmp_path / "a.mp4")
    for start, frames, expected in [(0.0, None, 60), (1.0, None, 35), (1.0, 10, 10), (2.0, 99, 10)]:
        with open_video(path, start=start, frames=frames) as video:
            assert video.frame_count == expected == len(list(video))


def test_a_start_after_the_end_is_an_error(long_clip: Path) -> None:
    with pytest.raises(InputError, match="ends before 9 s"):
        open_video(long_clip, start=9)


@pytest.mark.parametrize("bad", [{"start": -1}, {"start": float("nan")}, {"frames": 0}])
def test_impossible_limits_are_settings_errors(tmp_path: Path, bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        open_video(tmp_path / "a.mp4", **bad)  # type: ignore[arg-type]


# Colour

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


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_is_refused(tmp_path: Path, transfer: int, name: str) -> None:
    tags = {"color_trc": transfer, "color_primaries": 9, "colorspace": 9}
    clip = Clip([scene(0)], pixel_format="yuv420p10le", tags=tags)
    message = refused(UnsupportedInputError, clip.write(tmp_path / "a.mkv"))
    assert name in message and "tonemap" in message


def test_alpha_is_refused(tmp_path: Path) -> None:
    inside = Clip([scene(0)], pixel_format="yuva420p").write(tmp_path / "a.mkv")
    beside = Clip([scene(0)], "libvpx-vp9", "yuva420p", CFR).write(tmp_path / "a.webm")
    Clip([scene(0)], "png", "rgba", CFR).write(tmp_path / "a%d.png")
    for source in (inside, beside, str(tmp_path / "*.png")):
        assert "alpha" in refused(UnsupportedInputError, source)


# Images and pipes


def images(folder: Path, names: Sequence[str], width: int = 64) -> None:
    for index, name in enumerate(names):
        Clip([scene(index, width)], "png", "rgb24", CFR).write(folder / name, "image2")


def test_images_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    images(tmp_path, ["a1.png", "a2.png", "a10.png"])
    form, frames = read(str(tmp_path / "*.png"))
    assert form.frame_rate == 25
    assert [index_of(frame.pixels) for frame in frames] == [0, 1, 2]
    assert [frame.pts * form.time_base for frame in frames] == [0, CFR, 2 * CFR]
    _, frames = read(str(tmp_path / "*.png"), start=0.04, frames=1)
    assert [index_of(frame.pixels) for frame in frames] == [1]


def test_images_of_unequal_sizes_are_an_error(tmp_path: Path) -> None:
    images(tmp_path, ["a.png"])
    images(tmp_path, ["b.png"], width=32)
    message = refused(InputError, str(tmp_path / "*.png"))
    assert "b.png" in message and "32x48" in message and "64x48" in message


READ_PIPE = """
import sys
from gsvc.codec.errors import GsvcError
from gsvc.codec.video_reader import open_video
try:
    with open_video("-") as video:
        print(video.format.width, video.format.height, flush=True)
        for frame in video:
            print(frame.pts, frame.pixels[0, 0, 2], flush=True)
except GsvcError as error:
    print(type(error).__name__, error)
"""

WRITE = """
import sys
import numpy as np
from fractions import Fraction
from gsvc.codec.errors import GsvcError
from gsvc.codec.frames import Frame, VideoFormat
from gsvc.codec.video_writer import open_writer
if len(sys.argv) > 2:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
noise = np.random.default_rng(0)
form = VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
try:
    with open_writer(sys.argv[1], form, overwrite=True) as writer:
        for index in range(100):
            writer.write(Frame(noise.integers(0, 256, (48, 64, 3), dtype=np.uint8), index))
except GsvcError as error:
    print(type(error).__name__, error, file=sys.stderr)
    sys.exit(1)
"""


def test_y4m_on_standard_input_is_read_as_it_comes(tmp_path: Path) -> None:
    pictures = [scene(index) for index in range(20)]
    clip = Clip(pictures, "wrapped_avframe", "yuv444p", CFR)
    data = clip.write(tmp_path / "a.y4m", "yuv4mpegpipe").read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", READ_PIPE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(data[: len(data) // 2])
        process.stdin.flush()
        assert process.stdout.readline().split() == [b"64", b"48"]
        assert process.stdout.readline().split()[0] == b"0"
        rest, _ = process.communicate(data[len(data) // 2 :], timeout=60)
    assert [int(line.split()[0]) for line in rest.splitlines()] == list(range(1, 20))


@pytest.mark.parametrize("data", [b"", b"hello\n" * 100, b"YUV4MPEG2 W64 H48 F25:1\n"])
def test_anything_else_on_standard_input_is_an_error(data: bytes) -> None:
    result = subprocess.run(
        [sys.executable, "-c", READ_PIPE], input=data, capture_output=True, check=False
    )
    assert result.stdout.startswith(b"InputError standard input"), result
    assert result.stdout.count(b"\n") == 1 and not result.stderr


def test_y4m_flows_from_writer_to_reader(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITE, "-"], stdout=subprocess.PIPE) as writer:
        out = subprocess.run(
            [sys.executable, "-c", READ_PIPE], stdin=writer.stdout, capture_output=True, check=False
        )
    lines = out.stdout.decode().splitlines()
    assert lines[0] == "64 48" and len(lines) == 101, out.stderr


# Bad input


def _bad_sources(folder: Path) -> Iterator[tuple[str, str]]:
    (folder / "empty.mp4").touch()
    (folder / "text.txt").write_text("no video\n" * 100)
    (folder / "text.mp4").write_text("no video\n" * 100)
    (folder / "noise.mkv").write_bytes(np.random.default_rng(0).bytes(100_000))
    (folder / "titles.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nhi\n\n")
    (folder / "header.y4m").write_bytes(b"YUV4MPEG2 W64 H48 F25:1\n")
    with av.open(str(folder / "sound.wav"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=48_000)
        assert isinstance(stream, AudioStream)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 9600), np.int16), "s16", "stereo")
        frame.sample_rate = 48_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    whole = h264(30).write(folder / "whole.mp4").read_bytes()
    (folder / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    yield "missing.mp4", "no such file"
    yield ".", "folder"
    yield "empty.mp4", "empty"
    yield "text.txt", "text"
    yield "text.mp4", "not a video"
    yield "noise.mkv", "not a video"
    yield "titles.srt", "no video stream"
    yield "sound.wav", "no video stream"
    yield "header.y4m", "frame"
    yield "cut.mp4", "not a video"
    yield "*.png", "no image matches"
    yield "*.srt", "no picture"


def test_bad_sources_fail_in_one_line(tmp_path: Path) -> None:
    for name, words in _bad_sources(tmp_path):
        message = refused(InputError, str(tmp_path / name))
        assert words in message, message


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_truncated_file_gives_what_it_holds_on_request(suffix: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    pictures = [noise.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(75)]
    clip = Clip(pictures, "libx264", "yuv420p", CFR, muxer_options={"movflags": "faststart"})
    path = clip.write(tmp_path / f"a.{suffix}")
    _, whole = read(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    message = refused(InputError, path)
    assert "truncated" in message
    there = int(message.rpartition(" ")[2])
    with open_video(path, frames=there) as video:
        part = list(video)
    assert 5 < len(part) == there < 75
    np.testing.assert_array_equal(part[4].pixels, whole[4].pixels)


def test_damage_in_the_middle_names_the_frame(tmp_path: Path) -> None:
    pictures = [scene(index) for index in range(20)]
    clip = Clip(pictures, "png", "rgb24", CFR)
    path = clip.write(tmp_path / "a.mov")
    data = bytearray(path.read_bytes())
    signature = b"\x89PNG\r\n"
    places = [at for at in range(len(data)) if data[at : at + 6] == signature]
    data[places[10] : places[10] + 8] = bytes(8)
    path.write_bytes(data)
    assert "damaged at frame 10" in refused(InputError, path)


def test_damage_in_y4m_names_the_frame(tmp_path: Path) -> None:
    clip = Clip([scene(index) for index in range(6)], "wrapped_avframe", "yuv444p", CFR)
    path = clip.write(tmp_path / "a.y4m", "yuv4mpegpipe")
    data = bytearray(path.read_bytes())
    at = [i for i in range(len(data)) if data[i : i + 6] == b"FRAME\n"][3]
    data[at : at + 5] = b"BROKE"
    path.write_bytes(data)
    assert "damaged at frame 3" in refused(InputError, path)


# Writing


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "mov", "webm", "ts", "flv", "nut", "avi", "y4m"])
@pytest.mark.parametrize(("width", "height"), [(64, 48), (63, 47), (16, 16)])
def test_what_is_written_is_read_back(tmp_path: Path, suffix: str, width: int, height: int) -> None:
    variable = suffix not in ("avi", "y4m")
    times = VFR_TIMES if variable else [40 * index for index in range(8)]
    form = VideoFormat(width, height, MS, Fraction(25), Fraction(4, 3), Color(1, 1, 1))
    path = tmp_path / f"a.{suffix}"
    with open_writer(path, form) as writer:
        for index, time in enumerate(times):
            writer.write(Frame(scene(index, width, height), time))
    got, frames = read(path)
    assert (got.width, got.height) == (width, height)
    assert [frame.pts * got.time_base for frame in frames] == [time * MS for time in times]
    if suffix not in ("webm", "nut"):
        assert got.pixel_aspect == Fraction(4, 3)
    for index, frame in enumerate(frames):
        error = np.abs(frame.pixels.astype(int) - scene(index, width, height)).mean()
        assert error == 0 if suffix == "nut" else error < 3


def test_one_frame_makes_a_file(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.webm", "a.y4m", "a/%d.png"):
        with open_writer(tmp_path / name, VideoFormat(16, 16, CFR, Fraction(25))) as writer:
            writer.write(Frame(scene(0, 16, 16), 0))
        _, frames = read(str(tmp_path / name.replace("%d", "*")))
        assert len(frames) == 1


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "ppm", "jpg"])
def test_images_are_read_back(tmp_path: Path, suffix: str) -> None:
    form = VideoFormat(63, 47, CFR, Fraction(25))
    with open_writer(tmp_path / f"out/f%03d.{suffix}", form) as writer:
        for index in range(3):
            writer.write(Frame(scene(index, 63, 47), index))
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        f"f00{index}.{suffix}" for index in (1, 2, 3)
    ]
    _, frames = read(str(tmp_path / f"out/*.{suffix}"))
    for index, frame in enumerate(frames):
        error = np.abs(frame.pixels.astype(int) - scene(index, 63, 47)).max()
        assert error <= (10 if suffix == "jpg" else 0)


def test_a_folder_stands_for_numbered_png(tmp_path: Path) -> None:
    form = VideoFormat(16, 16, CFR, Fraction(25))
    for _ in range(2):
        with open_writer(f"{tmp_path}/new/", form, overwrite=True) as writer:
            writer.write(Frame(scene(0, 16, 16), 0))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["00001.png"]
    with pytest.raises(OutputError, match="already exists"), open_writer(f"{tmp_path}/new/", form):
        pass


@pytest.mark.parametrize("name", ["a", "a.xyz", "a.mp3", "a.srt", "a.png", "a%d-%d.png"])
def test_a_name_of_no_video_format_is_a_settings_error(tmp_path: Path, name: str) -> None:
    form = VideoFormat(16, 16, CFR, Fraction(25))
    with pytest.raises(ConfigError) as caught, open_writer(tmp_path / name, form):
        pass
    assert "\n" not in str(caught.value) and "%05d" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.y4m", "a/%d.png"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, InputError])
def test_nothing_appears_when_writing_is_broken_off(
    tmp_path: Path, name: str, error: type[BaseException]
) -> None:
    form = VideoFormat(64, 48, CFR, Fraction(25))
    with pytest.raises(error), open_writer(tmp_path / name, form) as writer:
        writer.write(Frame(scene(0), 0))
        raise error("enough")
    assert not list(tmp_path.iterdir())


def test_a_frame_of_another_size_and_no_frame_at_all_are_errors(tmp_path: Path) -> None:
    form = VideoFormat(64, 48, CFR, Fraction(25))
    with pytest.raises(ConfigError), open_writer(tmp_path / "a.mp4", form) as writer:
        writer.write(Frame(scene(0, 32, 32), 0))
    with pytest.raises(OutputError, match="no frame"), open_writer(tmp_path / "a.mp4", form):
        pass
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_text("mine")
    form = VideoFormat(64, 48, CFR, Fraction(25))
    with pytest.raises(OutputError, match="use -y"), open_writer(path, form):
        pass
    assert path.read_text() == "mine"
    with pytest.raises(KeyboardInterrupt), open_writer(path, form, overwrite=True):
        raise KeyboardInterrupt
    assert path.read_text() == "mine"
    with open_writer(path, form, overwrite=True) as writer:
        writer.write(Frame(scene(0), 0))
    assert len(read(path)[1]) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.mp4"]


def test_a_missing_folder_or_one_in_the_way_is_one_line(tmp_path: Path) -> None:
    form = VideoFormat(64, 48, CFR, Fraction(25))
    (tmp_path / "folder.mp4").mkdir()
    for name, words in (
        ("no/a.mp4", "does not exist"),
        ("no/a/%d.png", "does not exist"),
        ("folder.mp4", "is a folder"),
    ):
        with pytest.raises(OutputError, match=words), open_writer(tmp_path / name, form):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE and /dev/full")
@pytest.mark.parametrize("name", ["a.mp4", "a.webm", "a.mkv", "a.y4m", "a/%d.png"])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    limit = "1000" if name.endswith("png") else "30000"
    command = [sys.executable, "-c", WRITE, str(tmp_path / name), limit]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("OutputError") and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-c", WRITE, "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.stderr.startswith("OutputError no space left") and result.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pipes")
def test_a_reader_that_goes_away_is_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1000)
        process.stdout.close()
        message = process.stderr.read()
    assert message.startswith(b"OutputError") and message.count(b"\n") == 1


# Atomic output


def test_the_disk_being_full_inside_the_block_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no space left"), atomic_output(tmp_path / "a", False):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ConnectionError), atomic_output(tmp_path / "a", False):
        raise ConnectionError(errno.ECONNRESET, "not about the output")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and named pipes")
def test_links_are_followed_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_output(tmp_path / "link", False) as path:
        path.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with atomic_output(tmp_path / "pipe", False) as path:
        path.write_text("through")
    assert os.read(handle, 100) == b"through"
    os.close(handle)
    assert (tmp_path / "pipe").is_fifo()
