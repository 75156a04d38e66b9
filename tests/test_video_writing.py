"""Writing video: what is written is read back, and nothing is left where writing fails."""

import errno
import os
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc import Color, ConfigError, Frame, InputError, OutputError, VideoFormat
from gsvc.codec.media.output import atomic_output
from gsvc.codec.media.video_writer import open_writer
from video_clips import CFR, MS, VFR_TIMES, read, scene


@pytest.mark.parametrize(
    "suffix", ["mp4", "mkv", "mov", "webm", "ts", "flv", "3gp", "nut", "avi", "y4m"]
)
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
        assert error == 0 if suffix == "nut" else error < 5  # lossy


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


def test_a_name_without_a_number_is_one_image(tmp_path: Path) -> None:
    form = VideoFormat(63, 47, CFR, Fraction(25))
    target = tmp_path / "one.png"
    with open_writer(target, form) as writer:
        writer.write(Frame(scene(5, 63, 47), 0))
    [frame] = read(target)[1]
    np.testing.assert_array_equal(frame.pixels, scene(5, 63, 47))
    before = target.read_bytes()
    several = pytest.raises(ConfigError, match="frames=1")
    with several, open_writer(target, form, overwrite=True) as writer:
        for index in range(2):
            writer.write(Frame(scene(index, 63, 47), index))
    assert target.read_bytes() == before and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(("suffix", "is_told"), [("y4m", True), ("avi", True), ("mkv", False)])
@pytest.mark.parametrize("times", [VFR_TIMES, [40 * index for index in range(8)]])
def test_times_that_a_file_cannot_carry_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, is_told: bool, times: list[int]
) -> None:
    with open_writer(tmp_path / f"a.{suffix}", VideoFormat(64, 48, MS, Fraction(25))) as writer:
        for index, time in enumerate(times):
            writer.write(Frame(scene(index), time))
    assert caplog.text.count("times are lost") == (is_told and times == VFR_TIMES)


def test_a_folder_stands_for_numbered_png(tmp_path: Path) -> None:
    form = VideoFormat(16, 16, CFR, Fraction(25))
    for _ in range(2):
        with open_writer(f"{tmp_path}/new/", form, overwrite=True) as writer:
            writer.write(Frame(scene(0, 16, 16), 0))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["00001.png"]
    with pytest.raises(OutputError, match="already exists"), open_writer(f"{tmp_path}/new/", form):
        pass


@pytest.mark.parametrize("name", ["a", "a.xyz", "a.mp3", "a.srt", "a%d-%d.png", "a%s.png"])
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
    with pytest.raises(OutputError, match="overwrite=True replaces"), open_writer(path, form):
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


@pytest.mark.parametrize("times", [(0, 0), (5, 3), (-1,)])
def test_times_that_do_not_rise_and_a_closed_writer_are_refused(
    tmp_path: Path, times: tuple[int, ...]
) -> None:
    picture = np.zeros((16, 16, 3), np.uint8)
    target, form = tmp_path / "a.mp4", VideoFormat(16, 16, CFR, Fraction(25))
    refused = pytest.raises(ConfigError, match=r"frame time -?\d.*: give times that rise")
    with refused, open_writer(target, form) as writer:
        for time in times:
            writer.write(Frame(picture, time))
    assert not target.exists()
    with pytest.raises(ConfigError, match="writer is closed"):
        writer.write(Frame(picture, 9))
