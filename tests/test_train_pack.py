"""`gsvc train pack` on a tiny folder: what is in the packs, and that they can be gone on with."""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from gsvc.decoders.interpolation.rife import load_rife
from needs import need, need_package
from video_clips import SAME

if TYPE_CHECKING:
    from torch import Tensor

need_package("stlpips_pytorch")


Told = list[dict[str, Any]]
Run = Callable[..., tuple[int, Told]]
MEGABYTES = {"pictures": "7.9", "windows": "15.7"}
"""Networks, and a little more."""


def photograph(seed: int, width: int, height: int) -> NDArray[np.uint8]:
    """Coloured patches with grain."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (height // 40, width // 40, 3)).astype(np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    grain = cv2.GaussianBlur(rng.normal(0, 20, (height, width)), (0, 0), 1)[..., None]
    return np.asarray(np.clip(smooth + grain, 0, 255), np.uint8)


def write_clip(path: Path, seed: int) -> None:
    """A camera that pans over a photograph."""
    photo = photograph(seed, 520, 200)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "14", **SAME})
        assert isinstance(stream, av.video.stream.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 240, 200, "yuv420p"
        for index in range(90):
            picture = np.ascontiguousarray(photo[:, 3 * index : 3 * index + 240])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips, two photographs and a cut-out, some of them in a table."""
    folder = tmp_path_factory.mktemp("data")
    for seed, name in enumerate(("a.mp4", "unseen.mp4")):
        write_clip(folder / name, seed)
    for seed in (2, 3):
        cv2.imwrite(str(folder / f"photo{seed}.png"), photograph(seed, 320, 240))
    cutout = np.zeros((80, 80, 4), np.uint8)
    cv2.circle(cutout, (40, 40), 35, (40, 120, 220, 255), -1)
    cv2.imwrite(str(folder / "disc.png"), cutout)
    (folder / "clips.csv").write_text("file,licence\na.mp4,CC0\n")
    return folder


@pytest.fixture
def pack(data: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    from gsvc.codec.command.main import main

    def run(path: Path, *more: str) -> tuple[int, Told]:
        code = main(["train", "pack", str(data), str(path), "--json", *more])
        lines = capsys.readouterr().out.splitlines()
        return code, [json.loads(line) for line in lines]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", MEGABYTES)
def test_a_pack_holds_what_training_needs(kind: str, pack: Run, data: Path, tmp_path: Path) -> None:
    from gsvc.decoders.training.packs import read_pack

    if kind == "windows":
        with need("rife"):
            load_rife()
    path = tmp_path / "it.pack"
    more = ["--held-out", "unseen.mp4", "--megabytes", MEGABYTES[kind], "--kind", kind]
    code, told = pack(path, *more)
    assert code == 0 and told[-1]["type"] == "done"
    assert path.stat().st_size <= float(MEGABYTES[kind]) * 1e6
    made = read_pack(path)
    manifest, arrays, truth = made.manifest, made.arrays, made.stacks["truth"]
    samples = manifest["samples"]
    assert samples == told[-1]["samples"] == len(arrays["held"]) == len(arrays["scalars"])
    sources = {row["file"]: row for row in manifest["sources"]}
    held = int(arrays["held"].sum())
    assert held == manifest["held"] == sources.get("unseen.mp4", {"samples": 0})["samples"]
    digest = hashlib.sha256((data / "a.mp4").read_bytes()).hexdigest()
    assert sources["a.mp4"]["sha256"] == digest and sources["a.mp4"]["licence"] == "CC0"
    assert manifest["loss"]["truth_luma"]["mean"] > 38
    assert made.networks["alex"]
    check_pairs(made.stacks["given" if kind == "pictures" else "rendering"], made.stacks["truth"])
    if kind == "windows":
        first, frames = arrays["window"].unbind(1)
        assert first[0] == 0 and int(first[-1] + frames[-1]) == len(truth) == len(arrays["time"])
    few = read_pack(path, least=5)
    assert len(few.arrays["held"]) == 5 < samples
    for own, whole in ((few.stacks, made.stacks), (few.arrays, made.arrays)):
        assert own.keys() == whole.keys()
        assert all(rows.equal(whole[name][: len(rows)]) for name, rows in own.items())
    if kind == "windows":
        assert int(few.arrays["window"][-1].sum()) == len(few.stacks["truth"])
        assert frames.min() >= 3 and frames.max() <= 9
        assert len(made.stacks["keys"]) == 2 * samples
        assert ((arrays["time"] >= 0) & (arrays["time"] <= 1)).all()


def check_pairs(given: "Tensor", truth: "Tensor") -> None:
    """Each picture is nearer to its own source than to another one."""
    own = (given.float() - truth.float()).square().mean((1, 2, 3))
    others = (given.float() - truth.roll(len(truth) // 2, 0).float()).square().mean((1, 2, 3))
    assert own.median() < others.median() / 2


@pytest.mark.slow
def test_a_pack_that_was_killed_goes_on(pack: Run, data: Path, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.pack", tmp_path / "whole.pack"
    command = [sys.executable, "-m", "gsvc", "train", "pack", str(data), str(killed), "--jobs", "2"]
    parts = tmp_path / "killed.pack.parts"
    with subprocess.Popen(command) as process:
        end = time.monotonic() + 120
        while not list(parts.glob("*.tar")) and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
    assert not killed.exists()
    for path in (killed, whole):
        assert pack(path, "--megabytes", MEGABYTES["pictures"])[0] == 0
    for part in parts.glob("*.tar"):
        other = tmp_path / "whole.pack.parts" / part.name
        if other.exists():
            assert part.read_bytes() == other.read_bytes()


def test_mistakes_are_told(
    pack: Run, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gsvc.codec.command.main import main

    def refused(*arguments: object) -> str:
        assert main(["train", "pack", *map(str, arguments)]) in (1, 2)
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    path = tmp_path / "it.pack"
    assert "nothing to train on" in refused(tmp_path, path)
    assert "other.mp4" in refused(data, path, "--held-out", "other.mp4")
    assert "does not exist" in refused(data, tmp_path / "nowhere" / "it.pack")
    assert "is a folder" in refused(data, tmp_path)
    assert "networks" in refused(data, path, "--megabytes", "1")
    assert "minutes" in refused(data, path, "--minutes", "0")
    assert "other seed" in refused(data, path, "--seed", "5")
    assert "other kind" in refused(data, path, "--kind", "windows")
    (data / "broken.mp4").write_bytes(b"no video")
    try:
        assert "broken.mp4" in refused(data, tmp_path / "new.pack")
    finally:
        (data / "broken.mp4").unlink()
    assert not path.exists()
