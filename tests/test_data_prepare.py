"""`gsvc data prepare` on tiny clips: what is taken, what is set aside, and going on."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gsvc.codec.command.main import main
from gsvc.decoders.training.pipeline import Folder, read_members
from gsvc.decoders.training.samples import LOSSLESS, sample_files, sample_of_files
from gsvc.decoders.training.sources import NO_TIME, Clip, read_clip, scenes
from needs import need_models, need_package
from panning import write_clip

need_package("fsspec")
need_package("stlpips_pytorch")
need_models()

TINY = ["--kind", "windows", "--lines", "128", "--frames", "9", "--lambdas", "30"]
TINY += ["--shard-clips", "2", "--ray", "none", "--limits", "sharpness=1:", "--preset", "fast"]
TINY += ["--extract", "masks", "pose", "faces", "flow"]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says went wrong."""
    text = capsys.readouterr().err
    assert text.startswith("gsvc: error: ") and text.count("\n") == 1
    return text


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenes in a clip, one of them again in a tar file, coarser; and what is no video."""
    folder = tmp_path_factory.mktemp("footage")
    write_clip(folder / "a.mp4", [1, 2])
    write_clip(folder / "copy.mp4", [1], crf=30)
    with tarfile.open(folder / "more.tar", "w") as tar:
        tar.add(folder / "copy.mp4", "inside/copy.mp4")
    (folder / "copy.mp4").unlink()
    (folder / "poison.mp4").write_bytes((folder / "a.mp4").read_bytes()[:3000])
    return folder


def prepare(source: Path, out: Path, *more: str) -> dict[str, Any]:
    """Its manifest."""
    assert main(["data", "prepare", str(source), str(out), *TINY, *more]) == 0
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    return manifest


@pytest.fixture(scope="module")
def whole(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared in one go, nothing left out."""
    out = tmp_path_factory.mktemp("prepared") / "out"
    prepare(footage, out)
    return out


def assert_equal(one: Path, other: Path) -> None:
    for name in ("000000.tar", "000001.tar", "manifest.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_shards_hold_what_is_new_and_whole(whole: Path, footage: Path) -> None:
    manifest = json.loads((whole / "manifest.json").read_text())
    assert manifest["clips"] == 4 and manifest["set_aside"] == {"copy": 2}
    assert list(manifest["poison"]) == [str(footage / "poison.mp4")]
    samples = [len(json.loads(Folder(whole).table(n).read_text())["samples"]) for n in (0, 1)]
    assert samples == [shard["samples"] for shard in manifest["shards"]]
    assert sum(samples) == manifest["samples"] > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of webdataset
def test_webdataset_reads_the_samples(whole: Path) -> None:
    webdataset = need_package("webdataset")
    folder = Folder(whole)
    table = json.loads(folder.table(0).read_text())
    read = list(webdataset.WebDataset(str(folder.tar(0)), shardshuffle=False))
    assert [one["__key__"] for one in read] == [row["key"] for row in table["samples"]]
    for one, row in zip(read, table["samples"], strict=True):
        members = read_members(folder.tar(0), row["files"])
        assert members == {name: one[name] for name in members}
        sample, facts = sample_of_files(members, ""), json.loads(members["json"])
        frames = len(facts["frames"])
        assert sample.stacks["truth"].shape == (frames, 128, 128, 3)
        again = sample_of_files(sample_files(sample, LOSSLESS), "")
        np.testing.assert_array_equal(again.stacks["rendering"], sample.stacks["rendering"])
        assert {"mask.webp", "flow.npy"} <= members.keys() and len(facts["pose"]) == frames


@pytest.mark.slow
def test_drawings_are_of_the_keys(tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4", [1])
    prepare(tmp_path / "a.mp4", tmp_path / "out", "--extract", "drawings")
    folder = Folder(tmp_path / "out")
    for row in json.loads(folder.table(0).read_text())["samples"]:
        members = read_members(folder.tar(0), row["files"])
        drawn = np.asarray(Image.open(io.BytesIO(members["drawn.webp"])))
        assert drawn.shape == (2 * 2 * 128, 128, 3)  # both keys, twice
        keys = sample_of_files(members, "").stacks["keys"].reshape(-1, 128, 3)
        # A picture of theirs, not their very colours: the prior repaints random texture freely.
        assert np.corrcoef(drawn[:256].ravel(), keys.ravel())[0, 1] > 0.25


@pytest.mark.slow
def test_what_was_stopped_goes_on_to_the_same(whole: Path, footage: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    folder = Folder(out)
    folder.table(1).unlink()  # as a killed process leaves a shard: no table, half a tar file
    folder.tar(1).write_bytes(folder.tar(1).read_bytes()[:1000])
    kept = folder.tar(0).stat().st_mtime_ns
    prepare(footage, out)
    assert folder.tar(0).stat().st_mtime_ns == kept
    assert_equal(out, whole)


def test_a_clip_is_found_again_whatever_the_times_of_its_frames(tmp_path: Path) -> None:
    for late in (False, True):
        path = tmp_path / f"{late}.mp4"
        write_clip(path, [1, 2], frames=40, late=late)
        found = list(scenes(str(path), 128, 9))
        assert len(found) == 8 and any(pts == NO_TIME for _, pts, _ in found) == late
        for number, pts, frames in found:
            for time in (pts, 10**9):  # where none has this time, frames are counted
                clip = Clip(str(path), "", number, time, 25.0)
                np.testing.assert_array_equal(read_clip(clip, 128, 9), frames)


def test_other_settings_want_another_folder(
    whole: Path, footage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "prepare", str(footage), str(whole), *TINY, "--seed", "5"]) == 2
    assert "other settings: name another folder" in one_line(capsys)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--limits", "motion=1"], "write NAME=LEAST:MOST"),
        (["--limits", "sharpness=1e9:"], "no clip is left of 3 sources: sharpness"),
        (["--lines", "64"], "--lines is 64: take 128 or more"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(
    more: list[str],
    told: str,
    footage: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["data", "prepare", str(footage), str(tmp_path / "out"), *TINY, *more]) in (1, 2)
    assert told in one_line(capsys)


def test_a_few_clips_tell_what_many_take(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["data", "plan", str(whole), "--json", "--nodes", "2", "--cores", "4"]
    assert main([*few, "--clips", "4"]) == 0 and main([*few, "--clips", "4000000"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    small, large = (row for row in told if row["type"] == "plan")
    manifest = json.loads((whole / "manifest.json").read_text())
    assert (small["samples"], small["shards"]) == (manifest["samples"], len(manifest["shards"]))
    assert large["samples"] == 1_000_000 * manifest["samples"]
    names = {row["name"] for row in told if row["type"] == "stage"}
    assert {"survey", "read", "degrade", "flow", "file"} <= names and "_release" not in names
    hours = sum(row["core_hours"] for row in told if row["type"] == "stage")
    assert large["core_hours"] == pytest.approx(hours, rel=0.01)
    assert large["hours"] == pytest.approx(large["core_hours"] / 8, rel=0.01)
    assert main(["data", "plan", str(whole / "tables")]) == 1
    assert "gsvc data prepare makes some to plan by" in one_line(capsys)


@pytest.mark.slow
def test_ray_gives_the_same(whole: Path, footage: Path, tmp_path: Path) -> None:
    need_package("ray")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "gsvc", "data", "prepare", str(footage), str(out), *TINY]
    subprocess.run([*command, "--ray", "local", "--jobs", "1", "--store", "100"], check=True)
    assert_equal(out, whole)
