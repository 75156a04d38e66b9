"""Reading video: what a user's files hold is what comes out, and bad files fail in one line."""

import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream

from gsvc import ConfigError, Frame, InputError, VideoFormat
from gsvc.codec.media.video_reader import Clock, open_video
from gsvc.codec.media.video_writer import open_writer
from video_clips import CFR, MS, VFR_TIMES, Clip, h264, index_of, read, refused, scene

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


def test_fields_become_whole_pictures_where_asked(tmp_path: Path) -> None:
    pictures = np.full((10, 64, 64, 3), 40, np.uint8)
    for index, picture in enumerate(pictures):
        for field in (0, 1):  # of a bar that moves on between them
            picture[field::2, 4 * index + 2 * field :][:, :16] = 220
    path = Clip(
        [*pictures], "libx264", "yuv420p", options={"x264-params": "cpu-independent=1:tff=1"}
    ).write(tmp_path / "a.mkv")
    for deinterlace, comb in ((False, 5.0), (True, 0.5)):
        with open_video(path, deinterlace=deinterlace) as video:
            assert video.is_interlaced != deinterlace
            frames = list(video)
        assert [frame.pts for frame in frames] == [40 * index for index in range(10)]
        steps = [np.diff(frame.pixels.astype(int), axis=0) for frame in frames[1:-1]]
        assert (np.abs(steps).mean() > comb) == (not deinterlace)


def test_another_size_is_refused_where_fields_become_pictures_too(tmp_path: Path) -> None:
    path = tmp_path / "a.ts"
    parts = [
        Clip([scene(0, *size)] * 5, "libx264", "yuv420p").write(path).read_bytes()
        for size in ((64, 48), (48, 48))
    ]
    path.write_bytes(b"".join(parts))
    with open_video(path, deinterlace=True) as video, pytest.raises(InputError, match="48x48"):
        list(video)


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
        ([0, 40, 40, 41, 200], [0, 40, 60, 70, 200]),
        ([0, 0, 40, 40, 80], [0, 20, 40, 60, 80]),
        ([500, 540, 530, 580], [500, 540, 560, 580]),
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


# Images


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


def test_images_written_by_number_are_read_back_by_the_same_name(tmp_path: Path) -> None:
    images(tmp_path, ["f09.png", "f10.png", "f100.png", "f1.png", "f_2.png", "f11.png.png"])
    form, frames = read(str(tmp_path / "f%02d.png"), fps=30000 / 1001)
    assert form.frame_rate == Fraction(30000, 1001)
    assert [index_of(frame.pixels) for frame in frames] == [0, 1, 2]
    assert [frame.pts * form.time_base for frame in frames] == [
        index / form.frame_rate for index in range(3)
    ]
    with pytest.raises(ConfigError, match="out of range"):
        read(str(tmp_path / "*.png"), fps=0)


@pytest.mark.parametrize(
    ("rate", "start", "kept"),
    [
        (10, 0, [0, 3, 5, 8, 10, 13, 15, 18]),
        (10, 0.12, [3, 6, 8, 11, 13, 16, 18]),
        (Fraction(25, 2), 0, list(range(0, 20, 2))),
        (25, 0, list(range(20))),
    ],
)
def test_fewer_frames_a_second_show_what_was_there_at_their_times(
    tmp_path: Path, rate: int, start: float, kept: list[int]
) -> None:
    path = h264(20).write(tmp_path / "a.mp4")
    with open_video(path, start=start, fps=float(rate)) as video:
        frames = list(video)
        assert video.frame_count is not None and abs(video.frame_count - len(frames)) <= 1
    assert video.format.frame_rate == rate
    assert [index_of(frame.pixels) for frame in frames] == kept
    assert [frame.pts * video.format.time_base for frame in frames] == [
        (index - kept[0]) * CFR for index in kept
    ]


def test_more_frames_a_second_than_there_are_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    form, frames = read(h264(3).write(tmp_path / "a.mp4"), fps=60)
    assert form.frame_rate == 25 and len(frames) == 3
    assert "has 25 frames a second, all are kept" in caplog.text


def test_images_of_unequal_sizes_are_an_error(tmp_path: Path) -> None:
    images(tmp_path, ["a.png"])
    images(tmp_path, ["b.png"], width=32)
    message = refused(InputError, str(tmp_path / "*.png"))
    assert "b.png" in message and "32x48" in message and "64x48" in message


# Bad input


def _bad_sources(folder: Path) -> Iterator[tuple[str, str]]:
    (folder / "empty.mp4").touch()
    (folder / "text.txt").write_text("no video\n" * 100)
    (folder / "text.mp4").write_text("no video\n" * 100)
    (folder / "noise.mkv").write_bytes(np.random.default_rng(0).bytes(100_000))
    (folder / "titles.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nhi\n\n")
    (folder / "header.y4m").write_bytes(b"YUV4MPEG2 W64 H48 F25:1\n")
    (folder / "huge.y4m").write_bytes(b"YUV4MPEG2 W99999999 H48 F25:1\nFRAME\n")
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
    yield "huge.y4m", "impossible size"
    yield "cut.mp4", "not a video"
    yield "*.png", "no image matches"
    yield "*.srt", "no video stream"


def test_bad_sources_fail_in_one_line(tmp_path: Path) -> None:
    for name, words in _bad_sources(tmp_path):
        message = refused(InputError, str(tmp_path / name))
        assert words in message, message


def test_damaged_pictures_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    noise = np.random.default_rng(0)
    pictures = [noise.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(9)]
    path = Clip(pictures, "libx264", "yuv420p", CFR).write(tmp_path / "a.mkv")
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 5, len(data) // 2, len(data) // 10):
        data[at : at + 300] = b"U" * 300
    path.write_bytes(data)
    assert len(read(path)[1]) == 9
    assert "damaged pictures" in caplog.text


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
    there = int(message.rpartition("frames=")[2])
    with open_video(path, frames=there) as video:
        part = list(video)
    assert 5 < len(part) == there < 75
    np.testing.assert_array_equal(part[4].pixels, whole[4].pixels)


@pytest.mark.parametrize(("suffix", "kept"), [("ts", 0.7), ("avi", 0.7), ("ts", 1), ("avi", 1)])
def test_an_end_in_the_middle_of_something_is_told(
    suffix: str, kept: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """These containers promise no length."""
    whole = h264(48).write(tmp_path / f"it.{suffix}")
    data = whole.read_bytes()
    whole.write_bytes(data[: round(kept * len(data))])
    _, frames = read(whole)
    assert (len(frames) == 48) == (kept == 1)
    assert ("may have been longer" in caplog.text) == (kept < 1)


@pytest.mark.parametrize(("missing", "count"), [(0, 6), (1, 5), (9216, 5), (9230, 4)])
def test_y4m_that_ends_within_a_frame_is_told_of(
    missing: int, count: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A frame is 6 bytes of header and three planes of 64 x 48."""
    clip = Clip([scene(index) for index in range(6)], "wrapped_avframe", "yuv444p", CFR)
    path = clip.write(tmp_path / "a.y4m", "yuv4mpegpipe")
    path.write_bytes(path.read_bytes()[: path.stat().st_size - missing])
    assert len(read(path)[1]) == count
    assert ("may have been longer" in caplog.text) == (missing > 0)


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


def test_a_closed_reader_says_so(clip: Path) -> None:
    """FFmpeg's would end the process."""
    video = open_video(clip)
    frames = iter(video)
    next(frames)
    video.close()
    video.close()
    with pytest.raises(ConfigError, match="this reader is closed: open the video again"):
        next(frames)


def test_a_size_may_be_a_list(clip: Path) -> None:
    size: Any = [32, 32]
    with open_video(clip, size=size) as listed, open_video(clip, size=(32, 32)) as video:
        assert listed.format == video.format
