"""Every recipe of the cookbook runs as it is written, in a folder of its own, on short clips."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gsvc
from needs import need_package
from pages import ROOT, fenced

PAGE = ROOT / "docs" / "cookbook.md"

if not PAGE.exists():
    pytest.skip("runs in a checkout, not on an installed wheel", allow_module_level=True)

RECIPES = dict(
    re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
)

PRINTED = {
    "Eight seconds over a one-way radio of 4 kbit/s": r"made good +3, 7\n",
    "A talk over a link of 10 kbit/s": r"sound +Opus",
    "A still camera overnight": r"sound +none",
    "In pipes of FFmpeg": r"frames +30 in",
    "Live over UDP with loss": r"[1-9]\d* of \d+ datagrams lost\n",
    "Live one way, by radio or multicast": r"(?s)one way: .*--no-feedback\n",
    "Against AV1, on your own clips": r"(?s)svtav1.*gsvc, steps 0",
    "A codec of your own": r"(?s)against x264.*\| small ",
    "A metric of your own": r"mean_error \| +\d",
    "Where the bits went": r"key pictures +\d+ bits",
}
"""What each recipe prints, as a regular expression."""


@pytest.fixture
def kitchen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moving_pictures: Callable[..., list[gsvc.Picture]],
    write_video: Callable[..., Path],
) -> Path:
    """The working folder: what recipes take, and the commands they call."""
    write_video(tmp_path / "video.mp4", moving_pictures(30, (128, 96)), sound=1.2)
    (tmp_path / "clips").mkdir()
    for name in ("one.mp4", "two.mp4"):
        shutil.copy(tmp_path / "video.mp4", tmp_path / "clips" / name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gsvc").symlink_to(Path(sys.executable).with_name("gsvc"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cook(recipe: str) -> str:
    """Run a recipe's blocks in order; returns what they print. A block may be a file to save."""
    printed = ""
    for language, text in fenced(recipe):
        if file := re.match(r"# (\w+\.py)\n", text):
            Path(file[1]).write_text(text)
            continue
        command = ["bash", "-eo", "pipefail", "-c"] if language == "" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, text], check=False, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    return printed


SLOW = {
    "A codec of your own",
    "Against AV1, on your own clips",
    "In pipes of FFmpeg",
    "Live over UDP with loss",
    "Live one way, by radio or multicast",
}


@pytest.mark.parametrize(
    "title",
    [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in RECIPES],
)
def test_recipe_runs(title: str, kitchen: Path) -> None:
    recipe = RECIPES[title]
    if "ffmpeg -i" in recipe:
        ffmpeg = need_package("imageio_ffmpeg").get_ffmpeg_exe()
        (kitchen / "bin" / "ffmpeg").symlink_to(ffmpeg)
    if "gsvc score" in recipe or "gsvc bench" in recipe:
        need_package("torch")
    printed = cook(recipe)
    assert re.search(PRINTED[title], printed), printed
    shown = "\n".join(text for language, text in fenced(recipe) if language == "")
    for output in re.findall(r" (?:-o|--out|>) '?([\w./%]+)", shown):
        made = kitchen / output.replace("%05d", "00001")
        assert made.is_dir() or made.stat().st_size > 60, output
