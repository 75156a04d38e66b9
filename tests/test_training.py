"""`gsvc train` on a tiny folder: it learns, resumes, and its weights decode."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import gsvc
from needs import need_package

need_package("stlpips_pytorch")

Result = Callable[..., object]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three photographs with texture and a cut-out."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(1)
    for number in range(3):
        coarse = rng.integers(0, 255, (30, 40, 3)).astype(np.uint8)
        photo = cv2.resize(coarse, (480, 360), interpolation=cv2.INTER_CUBIC).astype(np.float64)
        grain = cv2.GaussianBlur(rng.normal(0, 40, (360, 480)), (0, 0), 1)[..., None]
        cv2.imwrite(
            str(folder / f"photo{number}.png"), np.clip(photo + grain, 0, 255).astype(np.uint8)
        )
    cutout = np.zeros((80, 80, 4), np.uint8)
    cv2.circle(cutout, (40, 40), 35, (40, 120, 220, 255), -1)
    cv2.imwrite(str(folder / "disc.png"), cutout)
    return folder


def train(
    run: Path, data: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> list[dict[str, Any]]:
    from gsvc.codec.command.main import main

    options = ("--batch", "2", "--minutes", "0.2", "--cache", "1", "--perceptual", "0", "--json")
    assert main(["train", "run", str(data), str(run), *options, *more]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def texture_distances(run: Path, weights: Path) -> tuple[float, float]:
    """Of the prepared crops, as decoded and refined in one step."""
    import torch

    from gsvc.decoders.refiners.compact.backend import load_pipeline
    from gsvc.decoders.training.losses import texture_distance
    from gsvc.decoders.training.pool import unpack

    network, distances = load_pipeline(weights).refiner, []
    for path in sorted((run / "pairs").iterdir()):
        with np.load(path) as file:
            parts = [unpack(crop, file["scalars"]) for crop in file["crops"]]
        given, scalars, truth = (torch.stack(part) for part in zip(*parts, strict=True))
        picture = given[:, :3]
        with torch.no_grad():
            estimate = network(picture, torch.ones(len(given)), given, scalars)
        distances.append([float(texture_distance(x, picture, truth)) for x in (picture, estimate)])
    as_decoded, refined = np.mean(distances, axis=0)
    return float(as_decoded), float(refined)


def test_loss_falls_it_resumes_and_the_weights_decode(
    data: Path, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    train(run, data, capsys, "--steps", "40")
    assert sum(path.stat().st_size for path in (run / "pairs").iterdir()) < 6 * 2**20
    done = train(run, data, capsys, "--steps", "45", "--resume")[-1]
    with (run / "loss.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(1, 46))
    as_decoded, refined = texture_distances(run, Path(done["weights"]))
    assert refined < as_decoded
    assert "## Training" in (run / "MODEL_CARD.md").read_text()
    assert len(list((run / "samples").iterdir())) == 2
    weights = str(done["weights"])
    stream = tmp_path / "it.gsv"
    gsvc.encode(clip, stream, settings=gsvc.EncoderSettings(preset="fast"))
    settings = gsvc.DecoderSettings(steps=1, backend=weights)
    report = gsvc.decode(stream, tmp_path / "it.mkv", settings=settings)
    assert report.frames > 0


def test_several_processes_train_one_network(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "gsvc", "train", "run", str(data), str(run), "--steps", "3", "--batch", "2"]
    limits = ["--minutes", "0.1", "--cache", "1", "--perceptual", "0", "--json"]
    done = subprocess.run([*command, *limits], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events == ["prepared", "trained", "done"]
    with (run / "loss.csv").open() as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == [1, 2, 3]
    assert (run / "compact.safetensors").exists()


def test_small_learns_from_what_its_prior_draws(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gsvc.decoders.refiners.compact.backend import WEIGHTS, load_pipeline

    run, start = tmp_path / "run", str(WEIGHTS["compact"])
    done = train(run, data, capsys, "--size", "small", "--steps", "3", "--weights", start)[-1]
    with np.load(next((run / "pairs").iterdir())) as file:
        assert file["crops"].shape[-1] == 7 + 6
    before, after = (
        load_pipeline(Path(path)).refiner.leave.weight for path in (start, done["weights"])
    )
    assert len(before) == 3 + 2 and len(after) == len(before) + 2 * 4
    assert after[len(before) :].abs().max() > 0


def test_what_is_trained_on_moves_as_frames_do() -> None:
    import torch

    from gsvc.decoders.motion.estimation import pixel_grid, warp
    from gsvc.decoders.training.moving import moved

    right, down = np.random.default_rng(2).random(2)
    x, y = np.moveaxis(pixel_grid(48, 48), 2, 0)
    picture, truth = (np.cos(2.2 * (x + a) + 0.3 * (y + b)) for a, b in ((0, 0), (right, down)))
    tensor = torch.from_numpy(picture)[None, None]
    shown, ideal = moved([tensor], tensor, np.random.default_rng(2))
    frame = warp(picture, pixel_grid(48, 48) + np.array([right, down], np.float32), cv2.INTER_CUBIC)
    inside = slice(5, 42), slice(5, 42)
    # OpenCV knows 32 parts of a pixel.
    np.testing.assert_allclose(shown[0, 0], frame[inside], atol=0.05)
    np.testing.assert_allclose(ideal[0, 0], truth[inside], atol=0.05)
    assert shown.abs().max() < 0.9 < ideal.abs().max()


def test_mistakes_are_told(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gsvc.codec.command.main import main

    run = str(tmp_path / "run")
    assert main(["train", "run", str(tmp_path / "nothing"), run]) == 1
    assert "nothing to train on" in capsys.readouterr().err
    assert main(["train", "run", str(data), run, "--held-out", "other.mp4"]) == 2
    assert "other.mp4" in capsys.readouterr().err
