"""`gsvc train run` and the exported script: they learn from real packs, and lose nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from gsvc.codec.command.main import main
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.compact.backend import load_pipeline
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.training.tensors import read_average
from needs import need, need_gpu, need_package
from test_train_pack import photograph, write_clip

need_package("stlpips_pytorch")

NUMBERS = (1, 2, *range(11, 120, 12))
"""Of parts: two to train on, and then those of what is held out."""
HELD_FROM = NUMBERS[2]
SMALL = """
base = "medium"
network = { size = "nano" }
planned = 1.0
rate = 2e-3
side = 32
cpu_batch = 2
scored = 16

[[stages]]
until = 1.0
learns = ["refiner"]
weights = { coarse = 1.0, texture = 0.3 }
"""
"""So that many steps take few seconds."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips and a photograph."""
    folder = tmp_path_factory.mktemp("data")
    for seed, name in enumerate(("a.mp4", "unseen.mp4")):
        write_clip(folder / name, seed)
    cv2.imwrite(str(folder / "photo.png"), photograph(2, 320, 240))
    return folder


@pytest.fixture(scope="module")
def packs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The pack of a kind."""
    from gsvc.decoders.training.crops import KINDS
    from gsvc.decoders.training.footage import find_footage
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.packing import PartFolder, PartMaker, assemble

    folder = tmp_path_factory.mktemp("packs")

    def pack(kind: str) -> Path:
        path = folder / f"{kind}.pack"
        if not path.exists():
            with need("rife"):
                networks = frozen_networks(KINDS[kind].networks)
            files, held = find_footage(data, ["unseen.mp4"])
            maker = PartMaker(kind, 0, data, files, held)
            parts = PartFolder(folder / kind, maker)
            for number in NUMBERS:
                if parts.write(number).samples and number >= HELD_FROM:
                    break
            assemble(path, parts, networks, 40_000_000)
        return path

    return pack


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip installs for torch, numpy, Pillow and safetensors alone."""
    folder, pending, seen = (
        tmp_path_factory.mktemp("bare"),
        ["torch", "numpy", "pillow", "safetensors"],
        set[str](),
    )
    while pending:
        name = pending.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform
        if found.metadata["Name"] in seen:
            continue
        seen.add(found.metadata["Name"])
        requires = [each for each in found.requires or () if "extra ==" not in each]
        pending += [match[0] for each in requires if (match := re.match(r"[\w.-]+", each))]
        for top in {file.parts[0] for file in found.files or () if ".." not in file.parts}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
    return folder


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "train_standalone.pyz"
    assert main(["train", "export", str(path)]) == 0
    return path


def started(bare: Path, script: Path, *arguments: object) -> "subprocess.Popen[str]":
    """The script in a process that has these four packages and Python's own modules alone."""
    code = "import runpy, sys; sys.path.append(sys.argv.pop(1)); sys.argv.pop(0)"
    code += "; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", code, bare, script, *arguments]
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def events(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """What it told, once it has ended well."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def steps_of(run: Path) -> int:
    """That the log of a run tells of."""
    lines = (run / "log.csv").read_text().splitlines(keepends=True)[1:]
    return max((int(line.split(",")[0]) for line in lines if line.endswith("\n")), default=0)


def losses(pack: Path, weights: Path) -> tuple[float, float]:
    """What SMALL minimises, over the crops that were trained on: as decoded, refined once."""
    from gsvc.decoders.training.losses import charbonnier, texture_distance
    from gsvc.decoders.training.packs import read_pack
    from gsvc.decoders.training.tasks import given_to, held_pictures, restored

    made = read_pack(pack)
    numbers = (made.arrays["held"] == 0).nonzero()[:, 0]
    (batch,) = held_pictures(made, numbers[:16], 16)
    picture, truth = batch["picture"], batch["truth"]
    given = given_to(batch, {}, with_gradient=False)
    with torch.no_grad():
        refined = restored(load_pipeline(weights).refiner, given, batch["scalars"], 1)
    found = [
        float(charbonnier(x, truth) + 0.3 * texture_distance(x, picture, truth))
        for x in (picture, refined)
    ]
    return found[0], found[1]


@pytest.mark.slow
def test_the_script_learns_alone_is_killed_and_goes_on(
    packs: Callable[[str], Path], bare: Path, script: Path, tmp_path: Path
) -> None:
    run, recipe = tmp_path / "run", tmp_path / "small.toml"
    recipe.write_text(SMALL)
    usual = packs("pictures"), run, "--recipe", recipe, "--json"
    process = started(bare, script, *usual, "--minutes", 9)
    end = time.monotonic() + 400
    while not (run / "average.safetensors").exists():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = read_average(run / "average.safetensors")[1]
    process = started(bare, script, *usual, "--minutes", 9)
    while steps_of(run) < before["step"] + 80:  # so many have learned something
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    told = [json.loads(line) for line in process.communicate()[0].splitlines()]
    assert told[-1]["type"] == "saved" and told[-1]["step"] >= before["step"] + 80
    sheet = cv2.imread(str(run / "sheet.png"))
    assert sheet is not None and sheet.shape[1] == 5 * 160
    assert sheet[:, :160].std() > 10
    assert main(["train", "adopt", str(run)]) == 0
    as_decoded, learned = losses(packs("pictures"), run / "medium.safetensors")
    assert learned < as_decoded
    refiner: Any = load_refiner(str(run / "medium.safetensors"))
    shown = cv2.cvtColor(sheet[:160, 160:320], cv2.COLOR_BGR2RGB)
    key = Keyframe(shown, np.zeros(shown.shape[:2], np.float32), 0.8, 1.0)
    change = np.abs(refiner.refine(key, steps=1, seed=1).astype(int) - shown)
    assert 0 < change.mean() < 20


@pytest.fixture
def taught(packs: Callable[[str], Path], tmp_path: Path) -> Iterator[Path]:
    """The result of a run of medium that has gone on into its last stage."""
    run = tmp_path / "medium"
    for _ in range(2):
        train(run, packs("pictures"), "medium", tmp_path)
    yield run / "average.safetensors"


def train(run: Path, pack: Path, name: str, folder: Path, *more: str) -> None:
    """Some steps of a recipe: of its first stage, and once it goes on, of its last one."""
    recipe = folder / f"{name}.toml"
    side = 128 if name == "rife" else 64
    recipe.write_text(f'base = "{name}"\nplanned = 0.01\nscored = 16\nside = {side}\n')
    options = ["--recipe", str(recipe), "--minutes", "0.06", "--batch", "1", "--seed", "3"]
    assert main(["train", "run", str(pack), str(run), *options, *more]) == 0


@pytest.mark.slow
def test_medium_trains_its_prior_and_teaches_nano(
    packs: Callable[[str], Path], taught: Path, tmp_path: Path
) -> None:
    weights, run = read_average(taught)
    assert list(run["networks"]) == ["refiner", "prior"]
    assert sum(value.numel() for value in weights.values()) > 6_500_000
    assert main(["train", "adopt", str(taught.parent)]) == 0
    assert load_refiner(str(taught.parent / "medium.safetensors")).files == [
        taught.parent / "medium.safetensors"
    ]
    nano = tmp_path / "nano"
    train(nano, packs("pictures"), "nano", tmp_path, "--teacher", str(taught))
    assert list(read_average(nano / "average.safetensors")[1]["networks"]) == ["refiner"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["window", "rife"])
def test_windows_train_frames_and_motion(
    name: str, packs: Callable[[str], Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(run, packs("windows"), name, tmp_path)
    weights = read_average(run / "average.safetensors")[0]
    assert all(torch.isfinite(value).all() for value in weights.values())
    assert main(["train", "adopt", str(run)]) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["medium", "window", "rife"])
def test_recipes_train_on_a_gpu(
    name: str, packs: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they ship: compiled, in half precision, with their own batches."""
    need_gpu()
    pack, run = packs("pictures" if name == "medium" else "windows"), tmp_path / "run"
    options = ["--recipe", name, "--device", "cuda", "--minutes", "1", "--json"]
    assert main(["train", "run", str(pack), str(run), *options]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "eager" not in [each["type"] for each in told]
    assert told[-1]["type"] == "saved" and told[-1]["step"] > 10
    weights = read_average(run / "average.safetensors")[0]
    assert all(torch.isfinite(value).all() for value in weights.values())


@pytest.mark.slow
def test_several_processes_train_one_network(
    packs: Callable[[str], Path], script: Path, tmp_path: Path
) -> None:
    run, recipe = tmp_path / "run", tmp_path / "small.toml"
    recipe.write_text(SMALL)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(script), str(packs("pictures")), str(run), "--recipe", str(recipe), "--json"]
    done = subprocess.run(
        [*command, "--minutes", "0.1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [each["type"] for each in told].count("stage") == 1
    assert told[-1]["type"] == "saved" and told[-1]["step"] >= 1


def test_a_loss_that_is_no_number_ends_a_run(
    packs: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "wild.toml"
    recipe.write_text(SMALL.replace("rate = 2e-3", "rate = 1e30\nlargest_gradient = 1e30"))
    more = ["--recipe", str(recipe), "--minutes", "1"]
    assert main(["train", "run", str(packs("pictures")), str(tmp_path / "run"), *more]) == 1
    assert "no number 10 times in a row" in capsys.readouterr().err


def test_mistakes_are_told(
    packs: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack, run = str(packs("pictures")), str(tmp_path / "run")
    cut = tmp_path / "cut.pack"
    cut.write_bytes(Path(pack).read_bytes()[:100_000])
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('base = "medium"\ncolour = 3\n')
    for options, code, text in [
        ([pack, run, "--recipe", "tiny"], 2, "no recipe is called 'tiny'"),
        ([pack, run, "--recipe", str(wrong)], 2, "colour is not a setting"),
        ([pack, run, "--recipe", "window"], 2, "learns from windows: this pack has pictures"),
        ([pack, run, "--recipe", "nano"], 2, "needs --teacher"),
        ([str(cut), run, "--recipe", "medium"], 1, "cannot be read as a pack"),
        ([pack, run, "--recipe", "medium", "--resume-from", run], 1, "holds no run"),
        ([pack, run, "--recipe", "medium", "--weights", str(wrong)], 1, "cannot be read"),
    ]:
        assert main(["train", "run", *options]) == code, options
        err = capsys.readouterr().err
        assert text in err and err.count("\n") == 1, err
    assert not Path(run).exists()


@pytest.mark.slow
def test_what_is_cut_stays_together(packs: Callable[[str], Path]) -> None:
    """Pictures of one sample are turned and tinted alike, and time runs either way."""
    from gsvc.decoders.training.draws import Rng, drawn_cuts
    from gsvc.decoders.training.packs import Pack, read_pack
    from gsvc.decoders.training.tasks import Spans

    pack, rng = read_pack(packs("windows")), Rng(torch.device("cpu"), 1)
    stacks = {**pack.stacks, "rendering": pack.stacks["truth"]}
    drawn = Spans(Pack(pack.manifest, stacks, pack.arrays, {}), 64).draw(16, 3, rng)
    assert torch.equal(drawn["truth"], drawn["rendering"])
    steps = drawn["time"].diff(dim=1)
    assert (steps > 0).all()  # backwards, both time and the keys change sides
    cuts = drawn_cuts(rng, 8, 128, 128)
    numbers = torch.arange(8) % len(stacks["truth"])
    cut = cuts.of(stacks["truth"], numbers)
    assert torch.equal(cut.flatten(1).sort(1)[0], stacks["truth"][numbers].flatten(1).sort(1)[0])
    assert cuts.colours(stacks["truth"], numbers).abs().max() <= 1


def test_what_is_trained_on_moves_as_frames_do() -> None:
    from gsvc.decoders.interpolation.optical_flow import pixel_grid, warp
    from gsvc.decoders.training.draws import Rng, moved

    device = torch.device("cpu")
    parts = Rng(device, 2)
    right, down = (float(parts.uniform(1) * parts.is_true(1, 1.0)) for _ in range(2))
    x, y = np.moveaxis(pixel_grid(48, 48), 2, 0)
    picture, truth = (np.cos(2.2 * (x + a) + 0.3 * (y + b)) for a, b in ((0, 0), (right, down)))
    tensor = torch.from_numpy(picture)[None, None].float()
    shown, _, ideal = moved(tensor, tensor, tensor, Rng(device, 2), 1.0)
    frame = warp(picture, pixel_grid(48, 48) + np.array([right, down], np.float32), cv2.INTER_CUBIC)
    inside = slice(5, 42), slice(5, 42)
    # OpenCV knows 32 parts of a pixel.
    np.testing.assert_allclose(shown[0, 0], frame[inside], atol=0.05)
    np.testing.assert_allclose(ideal[0, 0], truth[inside], atol=0.05)
    assert shown.abs().max() < 0.9 < ideal.abs().max()
