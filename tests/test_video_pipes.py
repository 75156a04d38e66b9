"""Video on pipes and full disks, in processes of their own: what goes wrong is one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from video_clips import CFR, Clip, scene

READ_PIPE = """
import sys
from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.media.video_reader import open_video
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
from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.bitstream.frames import Frame, VideoFormat
from gsvc.codec.media.video_writer import open_writer
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
        process.stdin.write(data[len(data) // 2 :])
        process.stdin.close()
        rest = process.stdout.read()  # communicate() leaves out what readline() has buffered
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


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE and /dev/full")
@pytest.mark.parametrize("name", ["a.mp4", "a.webm", "a.mkv", "a.y4m", "a/%d.png"])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    limit = "1000" if name.endswith("png") else "30000"
    command = [sys.executable, "-c", WRITE, str(tmp_path / name), limit]
    environment = {**os.environ, "COVERAGE_PROCESS_CONFIG": ""}  # its file is larger
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
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
