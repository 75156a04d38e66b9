"""`gsvc train shards` and `gsvc train plan`: an order without gaps, and runs that go on."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._inductor.config

from gsvc.codec.command.main import main
from gsvc.decoders.training.feeds import Order
from gsvc.decoders.training.layouts import Devices, Needs, Splitting, chosen, layouts
from gsvc.decoders.training.pipeline import Crop, Folder, write_json, write_tar
from gsvc.decoders.training.samples import LOSSLESS, Sample, sample_files
from gsvc.decoders.training.tensors import AVERAGE, read_average
from needs import need_package

need_package("stlpips_pytorch")

RECIPE = """
base = "medium"
network = { size = "nano" }
side = 32
[[stages]]
until = 1.0
learns = ["refiner"]
steps = { 1 = 0.5, 2 = 0.5 }
weights = { coarse = 1.0, adversary = 0.03 }
"""


def test_an_epoch_has_each_sample_once_whatever_trains() -> None:
    order = Order([3, 5, 1, 7] * 9, batch=6, seed=1)
    assert order.samples == 144
    whole = [place for batch in order.batches(0, 24, 0, 1) for place in batch]
    assert set(Counter(whole).values()) == {1} and len(whole) == 144
    # Two processes up to step 10, then three: as one.
    parts = [list(order.batches(0, 10, rank, 2)) for rank in range(2)]
    parts += [list(order.batches(10, 24, rank, 3)) for rank in range(3)]
    first = [place for own in zip(*parts[:2], strict=True) for part in own for place in part]
    then = [place for own in zip(*parts[2:], strict=True) for part in own for place in part]
    assert first + then == whole
    again = [place for batch in order.batches(24, 48, 0, 1) for place in batch]
    assert sorted(again) == sorted(whole) and again != whole


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of noise in the form of `gsvc data prepare`."""
    folder = Folder(tmp_path_factory.mktemp("shards"))
    folder.make()
    rng = np.random.default_rng(0)
    for number in range(2):
        crops = []
        for row in range(5):
            truth = rng.integers(0, 255, (1, 64, 64, 3)).astype(np.uint8)
            stacks = {"truth": truth, "given": truth // 2, "gain": truth[..., :1]}
            sample = Sample(stacks, {"scalars": np.full((1, 2), 0.5, np.float16)})
            members = sample_files(sample, LOSSLESS)
            crops.append(Crop(f"{number}-{row}", Sample({}), members))
        write_json(folder.table(number), {"samples": write_tar(folder.tar(number), crops)})
    rows = [{"samples": 5}, {"samples": 5}]
    manifest = {"kind": "pictures", "shards": rows, "samples": 10, "settings": {}, "sources": []}
    write_json(folder.path / "manifest.json", manifest)
    return folder.path


def test_a_run_goes_on_as_if_it_had_not_stopped(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)

    def losses(out: str, *more: str) -> dict[int, float]:
        arguments = ["train", "shards", str(shards), str(tmp_path / out), "--recipe", str(recipe)]
        arguments += ["--batch", "3", "--steps", "6", "--workers", "0", "--device", "cpu", "--json"]
        assert main([*arguments, *more]) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {row["step"]: row["loss"] for row in told if row["type"] == "step"}

    whole = losses("whole")
    parts = losses("parts", "--stop", "2")
    assert parts.keys() == {1, 2}
    parts |= losses("parts", "--recompute")
    assert parts == pytest.approx(whole, rel=1e-4)
    weights, about = read_average(tmp_path / "parts" / AVERAGE)
    assert about["step"] == 6 and "refiner" in about["networks"] and weights
    assert (tmp_path / "parts" / "log.csv").read_text().count("\n") == 7


def test_a_run_of_another_recipe_is_told(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "shards", str(shards), str(tmp_path), "--recipe", "medium"]
    assert main([*arguments, "--held-out", "a.mp4", "--steps", "0"]) == 2
    assert "--steps: take 1 or more" in capsys.readouterr().err
    (tmp_path / "run").mkdir()
    mesh = ["train", "shards", str(shards), str(tmp_path / "run"), "--recipe", "medium"]
    assert main([*mesh, "--device", "cpu", "--layout", "fsdp", "--tensor", "2"]) == 2
    assert "--tensor is 2: it goes with --layout fsdp and divides the 1" in capsys.readouterr().err
    assert main(["train", "shards", str(tmp_path), str(tmp_path), "--recipe", "medium"]) == 1
    assert "gsvc data prepare makes them" in capsys.readouterr().err


def test_a_mesh_is_chosen_where_nothing_else_fits() -> None:
    blocks = Splitting(parameters=90, sample=80, flops=900, summed=1)
    whole = Needs(100, 100, 200, 100, 10, 5, 0, 100, 0, 60, 1000, 1200, blocks)
    # Two samples for four devices: blocks must be in parts.
    found = layouts(whole, 2, Devices(4, 10_000, 1e9, 1e9))
    plain = {each.name: each for each in found if not each.recomputed}
    assert plain.keys() == {"fsdp, tensor 2", "tensor"}
    mesh = plain["fsdp, tensor 2"]
    assert mesh.options == "--layout fsdp --tensor 2"
    # Half of what has blocks in halves; two gathered blocks, what is frozen, activations.
    assert mesh.memory == (500 - 5 * 45) // 2 + 2 * 5 + 10 + (100 - 40)
    assert plain["tensor"].memory == 500 - int(5 * 67.5) + 10 + 2 * (100 - 60)
    small = Devices(4, mesh.memory, 1e9, 1e9)
    best = chosen(layouts(whole, 2, small), small)
    assert best is not None and best.name == "fsdp, tensor 2"


@pytest.mark.slow
def test_several_processes_train_as_one_killed_or_not(shards: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "tools/scale_train.py"
    command = [sys.executable, str(script), str(shards), "--work", str(tmp_path), "--short"]
    command += ["--steps", "4", "--batch", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(line.split(": ") for line in done.splitlines() if " on two" in line)
    assert len(found) == 2 and all(float(value) < 1e-3 for value in found.values()), done


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="torch.compile needs a C compiler")
@pytest.mark.filterwarnings("ignore")  # of torch.compile
def test_bfloat16_and_compile_train_the_same_network(
    shards: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE.replace("1 = 0.5, 2 = 0.5", "1 = 1.0"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setattr(torch._inductor.config, "compile_threads", 1)
    whole = torch.compile

    def without_code(function: Any) -> Any:
        """Networks are traced, with their gradients, and what was traced is run as it is: to make
        68 pieces of C++ of it takes a core more than a minute."""
        backend = "aot_eager" if isinstance(function, torch.nn.Module) else "inductor"
        return whole(function, backend=backend)

    def losses(out: str, *more: str) -> list[float]:
        command = ["train", "shards", str(shards), str(tmp_path / out), "--recipe", str(recipe)]
        command += ["--batch", "2", "--steps", "2", "--workers", "0", "--device", "cpu", "--json"]
        assert main([*command, *more]) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert "eager" not in {row["type"] for row in told}
        return [row["loss"] for row in told if row["type"] == "step"]

    plain = losses("plain")
    monkeypatch.setattr(torch, "compile", without_code)
    # Eight bits of mantissa: what a step makes of the same samples differs by some percent.
    assert losses("low", "--bf16", "--compiled") == pytest.approx(plain, rel=0.2)


@pytest.mark.slow
def test_without_a_compiler_it_trains_as_it_is(shards: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    command = [sys.executable, "-m", "gsvc", "train", "shards", str(shards), str(tmp_path / "run")]
    command += ["--recipe", str(recipe), "--batch", "2", "--steps", "1", "--workers", "0"]
    command += ["--device", "cpu", "--compiled"]
    none = {"CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    env = {**os.environ, **none}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    told = [line for line in done.stdout.splitlines() if "torch.compile" in line]
    assert len(told) == 1 and told[0].startswith("eager") and "compiler" in told[0]
    assert "Traceback" not in done.stderr and "saved step 1" in done.stdout


@pytest.mark.slow
def test_producers_may_die_and_join(shards: Path) -> None:
    need_package("ray")
    script = Path(__file__).parents[1] / "tools/scale_producers.py"
    command = [sys.executable, str(script), "faults", str(shards), "--batch", "2", "--faults", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ": 10 batches, 20 samples, each [2] times in 2 epochs" in done.stdout
    assert "'killed': 1, 'late': 1, 'slow': 1" in done.stdout and " 0 batches wrong" in done.stdout
