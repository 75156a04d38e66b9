"""gsvc play: into a window, or into whoever reads."""

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

import gsvc
from commands import FAILED, USAGE, assert_one_line, run_gsvc
from needs import lack

NO_WINDOW = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}


def check(data: bytes) -> None:
    """What a player gets: 20 frames, and the sound."""
    with av.open(io.BytesIO(data), "r") as container:
        assert {stream.type for stream in container.streams} == {"video", "audio"}
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 20 and np.std(frames[0]) > 5


def test_a_pipe_takes_it_where_it_is_asked_for(stream: Path) -> None:
    check(run_gsvc("play", stream, "--player", "-", env=NO_WINDOW).stdout)
    refused = run_gsvc("play", stream, env=NO_WINDOW)
    assert_one_line(refused, USAGE, "no display", "gsvc serve", "--player -")
    assert not refused.stdout


def test_any_program_takes_it(stream: Path, tmp_path: Path) -> None:
    got = tmp_path / "{got}.mkv"
    assert run_gsvc("play", stream, "--player", f"dd of='{got}'").returncode == 0
    check(got.read_bytes())


def test_a_back_end_that_is_named_restores(stream: Path) -> None:
    plain, sharp, restored = (
        run_gsvc("play", stream, "--player", "-", *how).stdout
        for how in ((), ("--look", "sharp"), ("--backend", "restorer"))
    )
    assert len({plain, sharp, restored}) == 3
    refused = run_gsvc("play", stream, "--player", "-", "--backend", "compact", "--steps", "0")
    assert_one_line(refused, USAGE, "--steps 0")


def test_a_player_that_is_closed_early_ends_it(stream: Path) -> None:
    done = run_gsvc("play", stream, "--player", "head -c 100")
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 100, b"")


def test_what_cannot_be_played_is_told_in_one_line(
    stream: Path, clip: Path, tmp_path: Path
) -> None:
    assert_one_line(run_gsvc("play", stream, "--player", "false"), FAILED, "exit code 1")
    assert_one_line(run_gsvc("play", stream, "--player", "no-such"), USAGE, "no such program")
    assert_one_line(run_gsvc("play", stream, "--player", "'"), USAGE, "--player")
    missing = tmp_path / "missing.gsv"
    assert_one_line(run_gsvc("play", missing, "--player", "cat"), FAILED, "no such file")
    assert_one_line(run_gsvc("play", "udp://@:5004", "--player", "-"), USAGE, "gsvc recv")
    plain = run_gsvc("play", clip, env=NO_WINDOW)
    assert_one_line(plain, FAILED, "no gsvc stream in this video")
    cut = tmp_path / "cut.gsv"
    cut.write_bytes(stream.read_bytes()[:-9])
    assert_one_line(
        run_gsvc("play", cut, "--player", "dd of=/dev/null status=none"), FAILED, "ends"
    )


def test_on_a_terminal_without_a_window_it_says_what_to_do(stream: Path) -> None:
    mine, theirs = os.openpty()
    script = Path(sys.executable).with_name("gsvc")
    environment = {**os.environ, **NO_WINDOW}
    done = subprocess.run(
        [script, "play", stream],
        check=False,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment,
    )
    os.close(theirs)
    os.close(mine)
    assert_one_line(done, USAGE, "no display", "--player")


@pytest.fixture
def display() -> Iterator[str]:
    """An X server without a screen."""
    if shutil.which("Xvfb") is None or shutil.which("ffplay") is None:
        lack("ffplay", "no Xvfb and ffplay here: apt-get install xvfb ffmpeg")
    ours, theirs = os.pipe()
    command = ["Xvfb", "-displayfd", str(theirs), "-screen", "0", "320x240x24"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, pass_fds=[theirs], stderr=quiet, stdout=quiet) as server:
        os.close(theirs)
        with open(ours) as told:
            yield f":{told.readline().strip()}"
        server.kill()


def test_a_window_opens_where_there_is_one(stream: Path, display: str) -> None:
    began = time.monotonic()
    done = run_gsvc("play", stream, env={"DISPLAY": display})
    assert done.returncode == 0
    assert time.monotonic() - began > 0.8  # as long as the video


def test_a_mapped_file_plays_too(stream: Path, tmp_path: Path) -> None:
    gsvc.mux(stream, tmp_path / "it.mp4")
    check(run_gsvc("play", tmp_path / "it.mp4", "--player", "-").stdout)
