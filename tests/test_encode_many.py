"""`gsvc encode --out FOLDER`: many videos, of which some fail and none is lost."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gsvc
from commands import run_gsvc

BARE = "--level", "3", "--preset", "fast", "--low-delay", "--audio", "none"


@pytest.fixture
def folder(clip: Path, tmp_path: Path) -> Path:
    """Two videos, a damaged one, and a text."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("one.mp4", "two.mp4"):
        (folder / name).write_bytes(clip.read_bytes())
    (folder / "bad.mp4").write_bytes(clip.read_bytes()[:300])
    (folder / "note.txt").write_text("no video")
    return folder


def test_one_that_fails_stops_no_other(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_gsvc("encode", folder, "--out", out, "-j", "2", *BARE)
    assert done.returncode == 1
    assert sorted(path.name for path in out.iterdir()) == ["one.gsv", "two.gsv"]
    assert gsvc.info(out / "one.gsv").frames == gsvc.info(out / "two.gsv").frames == 20
    assert len(done.stdout.splitlines()) == 2 and b"one.gsv: 20 frames" in done.stdout
    first, last = done.stderr.splitlines()
    assert b"bad.mp4: not a video" in first and last.startswith(b"gsvc: error: 1 of 3 videos")


def test_nothing_is_replaced_without_leave(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "one.gsv").write_bytes(b"mine")
    names = folder / "one.mp4", folder / "two.mp4"
    done = run_gsvc("encode", *names, "--out", out, "--json", *BARE)
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (done.returncode, sorted(kinds)) == (1, ["done", "failed"])
    assert (out / "one.gsv").read_bytes() == b"mine" and (out / "two.gsv").exists()
    assert run_gsvc("encode", names[0], "--out", out, "-y", "--quiet", *BARE).stdout == b""
    assert gsvc.info(out / "one.gsv").frames == 20


def test_what_cannot_be_meant_is_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (folder / "one.mkv").write_bytes((folder / "one.mp4").read_bytes())
    one, two, other = folder / "one.mp4", folder / "two.mp4", folder / "one.mkv"
    for arguments, line in (
        ((folder,), b"is a folder: say where its streams go with --out FOLDER"),
        ((one, other, "--out", out), b"would both become"),
        ((one, two, other, "-y"), b"3 names, but gsvc encode takes one input"),
        ((one, "-j", "2"), b"--jobs is for several files"),
        ((tmp_path / "in", "--out", out, "--level", "9"), b"level 9"),
        (("-", "--out", out), b"standard input is no file for --out"),
    ):
        done = run_gsvc("encode", *arguments)
        assert done.returncode == 2 and line in done.stderr and done.stderr.count(b"\n") == 1
    assert not out.exists()
    assert two.read_bytes() == (folder / "one.mp4").read_bytes()


@pytest.mark.parametrize(
    ("sent", "code"),
    [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)],
)
def test_ended_early_it_leaves_nothing_half_written(
    folder: Path, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    for number in range(40):  # so many that it is still at work when the signal comes
        (folder / f"more{number}.mp4").write_bytes((folder / "one.mp4").read_bytes())
    usual = ["env", "--default-signal=INT"]  # tests may run where it is ignored
    command = [*usual, sys.executable, "-m", "gsvc", "encode", str(folder), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--preset", "slow", "--face-weight", "1"], start_new_session=True
    )
    while not (out.exists() and any(path.name.startswith(".") for path in out.iterdir())):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(sent)
    assert process.wait(300) == code
    assert all(path.suffix == ".gsv" and path.name[0] != "." for path in out.iterdir())
