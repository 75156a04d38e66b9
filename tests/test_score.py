"""`gsvc score`: two videos, matched by time, in the benchmark's metrics."""

import csv
import io
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gsvc
from commands import run_gsvc
from gsvc import InputError
from gsvc.codec.media.video_writer import open_writer
from gsvc.eval.bench import score
from gsvc.eval.bench.score import read_pair
from gsvc.eval.metrics.fidelity import psnr_y

Pictures = Callable[..., list[gsvc.Picture]]

PSNR = ("--metric", "psnr_y")


def video(path: Path, pictures: list[gsvc.Picture], rate: int = 25) -> str:
    """The pictures as y4m."""
    height, width = pictures[0].shape[:2]
    form = gsvc.VideoFormat(width, height, Fraction(1, rate), Fraction(rate))
    with open_writer(path, form) as writer:
        for pts, picture in enumerate(pictures):
            writer.write(gsvc.Frame(picture, pts))
    return str(path)


@pytest.fixture
def a(tmp_path: Path, moving_pictures: Pictures) -> str:
    return video(tmp_path / "a.y4m", moving_pictures(6))


@pytest.fixture
def b(tmp_path: Path, moving_pictures: Pictures) -> str:
    return video(tmp_path / "b.y4m", [picture // 8 * 8 for picture in moving_pictures(6)])


def test_the_numbers_are_the_metrics_own(a: str, b: str) -> None:
    pair = read_pair(a, b)
    truth = psnr_y(pair.source.frames, pair.test)
    done = run_gsvc("score", a, b, *PSNR, "--csv", "--per-frame")
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    assert (done.returncode, done.stderr) == (0, b"reading both videos, then psnr_y\n")
    assert [float(row["psnr_y"]) for row in rows] == pytest.approx(truth, rel=1e-5)
    assert [float(row["time"]) for row in rows] == pytest.approx(np.arange(6) / 25)


def test_json_tells_each_metric_and_gap(a: str) -> None:
    done = run_gsvc("score", a, a, *PSNR, "--metric", "warp_error", "--json", "--frames", "3")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    by_name = {line["metric"]: line for line in lines if line["type"] == "score"}
    assert by_name["psnr_y"]["value"] is None and "exact" in by_name["psnr_y"]["gap"]
    assert by_name["warp_error"]["better"] == "lower"
    assert lines[-1] == {"type": "done", "frames": 3, "measured": 3, "alone": [0, 0]}
    assert done.returncode == 1


def test_frames_pair_by_time(tmp_path: Path, moving_pictures: Pictures) -> None:
    pictures = moving_pictures(6)
    whole = video(tmp_path / "whole.y4m", pictures, rate=30)
    half = video(tmp_path / "half.y4m", pictures[::2], rate=15)
    for pair, alone in ((read_pair(whole, half), (3, 0)), (read_pair(half, whole), (0, 3))):
        assert pair.times == pytest.approx([0, 1 / 15, 2 / 15])
        assert pair.alone == alone
        assert all(map(np.array_equal, pair.source.frames, pair.test))


def test_another_size_is_refused_unless_scaled(
    a: str, tmp_path: Path, moving_pictures: Pictures
) -> None:
    other = video(tmp_path / "other.y4m", moving_pictures(6, (96, 72)))
    with pytest.raises(InputError, match=r"other.y4m is 96x72, but .*a.y4m is 64x48: scale=True"):
        read_pair(a, other)
    assert read_pair(a, other, scale=True).test[0].shape == (48, 64, 3)


def test_another_shape_is_told(
    tmp_path: Path, moving_pictures: Pictures, caplog: pytest.LogCaptureFixture
) -> None:
    names = []
    for aspect in (Fraction(1), Fraction(16, 11)):
        form = gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25), pixel_aspect=aspect)
        names.append(str(tmp_path / f"{aspect.numerator}.mkv"))
        with open_writer(Path(names[-1]), form) as writer:
            writer.write(gsvc.Frame(moving_pictures(1)[0], 0))
        read_pair(names[0], names[-1])
        assert ("shown 1.33 times as wide as high" in caplog.text) == (aspect != 1)


def test_a_plot_is_drawn_and_not_replaced(a: str, b: str, tmp_path: Path) -> None:
    target = tmp_path / "plot.svg"
    assert run_gsvc("score", a, b, *PSNR, "--plot", target).returncode == 0
    drawn = target.read_bytes()
    assert b"psnr_y: higher is better" in drawn
    done = run_gsvc("score", a, b, *PSNR, "--plot", target)
    assert done.returncode == 1 and b"replace it with -y" in done.stderr
    assert target.read_bytes() == drawn


def test_what_does_not_fit_into_memory_is_refused(a: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "machine", lambda: {"memory": 4 * 4 * (64 * 48 * 3)})
    with pytest.raises(InputError, match=r"a\.y4m does not fit into memory: frames=4 measures"):
        read_pair(a, a)
    assert len(read_pair(a, a, frames=4).test) == 4


def test_what_cannot_be_scored_is_one_line(a: str, b: str) -> None:
    for extra, line in (
        (("--metric", "nope"), b"unknown metric 'nope'; there are cvvdp"),
        ((*PSNR, "--plot", "it.pdf"), b"it.pdf: a plot's name ends in .svg or .png"),
        ((*PSNR, "--stride", "0"), b"stride 0: must be 1 or more"),
    ):
        done = run_gsvc("score", a, b, *extra)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"gsvc: error: " + line) and done.stderr.count(b"\n") == 1
    done = run_gsvc("score", "it.gsv", a, *PSNR)
    assert done.returncode == 1 and b"is a stream" in done.stderr


def test_a_video_that_begins_later_is_told_and_compared_where_it_was_shown(
    tmp_path: Path, moving_pictures: Pictures
) -> None:
    pictures = moving_pictures(12)
    whole, late = video(tmp_path / "whole.y4m", pictures), str(tmp_path / "late.mkv")
    form = gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
    with open_writer(Path(late), form) as writer:
        for pts in range(5, 12):
            writer.write(gsvc.Frame(pictures[pts], pts))
    done = run_gsvc("score", whole, late, *PSNR, "--csv")
    assert b"by time stamps, B begins later: --offset 0.200" in done.stderr
    done = run_gsvc("score", whole, late, *PSNR, "--json", "--offset", "0.2")
    (score,) = [one for one in map(json.loads, done.stdout.splitlines()) if one["type"] == "score"]
    assert b"begins later" not in done.stderr and score["value"] > 30
    done = run_gsvc("score", whole, late, *PSNR, "--offset", "nan")
    assert done.returncode == 2 and b"offset nan: give seconds" in done.stderr
