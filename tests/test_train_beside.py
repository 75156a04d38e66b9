"""The job that trains beside all else: its samples, its network, and that it survives anything."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from beside.checkpoint import BEFORE, CHECKPOINT, read_checkpoint, write_checkpoint
from beside.distances import WassersteinDistortion, fidelity
from beside.job import main
from beside.mixtures import best_mixture, conditions_of, mixed
from beside.pool import SamplePool
from beside.shards import read_shard, write_shard
from gsvc import InputError
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.training.app import write_app
from gsvc.decoders.training.samples import LOSSLESS, Sample
from gsvc.decoders.training.tensors import write_tensors
from train_beside import JOB

STARTER = Path(__file__).parent.parent / "tools" / "train_beside.py"


def loaded(path: Path, name: str) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def some_samples(count: int, side: int = 64, *, held: bool = False) -> list[Sample]:
    rng = np.random.default_rng(1)
    ramp = np.linspace(0, 200, side).astype(np.uint8)
    numbers: dict[str, object] = {"quantizer": 0.9, "size": 0.75, "layer": 2, "held": held}
    made = []
    for _ in range(count):
        truth = np.broadcast_to(ramp[:, None, None], (1, side, side, 3)) + rng.integers(
            0, 40, (1, side, side, 3), np.uint8
        )
        gain = np.full((1, side, side, 1), 30, np.uint8)
        given = np.concatenate([(truth // 8 * 8), gain], 3)
        made.append(Sample({"truth": truth, "given": given}, numbers=numbers))
    return made


def some_frozen() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shapes = {"0.weight": (64, 3, 11, 11), "0.bias": (64,), "1.weight": (192, 64, 5, 5)}
    shapes["1.bias"] = (192,)
    return {f"convolutions.{name}": 0.05 * torch.randn(shape) for name, shape in shapes.items()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder with a few samples and the exported job."""
    (tmp_path / "samples").mkdir()
    write_shard(tmp_path / "samples" / "000001.tar", some_samples(4))
    write_shard(tmp_path / "samples" / "000000.tar", some_samples(2, held=True))
    write_tensors(tmp_path / "frozen.safetensors", some_frozen(), {}, 10_000_000)
    write_app(tmp_path / "train_beside.py", JOB)
    return tmp_path


RunJob = Callable[..., tuple[int, str]]


@pytest.fixture
def run_job(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunJob:
    """Runs the job and gives its exit code and what it said."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    shape = ["--batch", "1", "--crop", "48", "--texture-from", "1", "--urgent"]

    def run(*more: str) -> tuple[int, str]:
        return main([str(work), *shape, *more]), capsys.readouterr().out

    return run


def test_samples_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    samples = some_samples(3)
    assert write_shard(path, samples, quality=LOSSLESS) == 3
    for one, other in zip(samples, read_shard(path), strict=True):
        assert other.numbers["layer"] == 2
        for name, stack in one.stacks.items():
            assert np.array_equal(stack, other.stacks[name])
    write_shard(path, samples)
    truth, gain = read_shard(path)[0].stacks["truth"], read_shard(path)[0].stacks["given"][..., 3]
    assert np.abs(truth.astype(int) - samples[0].stacks["truth"]).mean() < 10
    assert (gain == 30).all()  # alpha keeps its levels


def test_a_damaged_or_newer_shard_is_told_of_and_left_out(tmp_path: Path) -> None:
    good, cut, newer = (tmp_path / f"{name}.tar" for name in "abc")
    write_shard(good, some_samples(2))
    cut.write_bytes(good.read_bytes()[:1500])
    newer_sample = Sample(some_samples(1)[0].stacks, numbers={"format": 99})
    write_shard(newer, [newer_sample])
    with pytest.raises(InputError, match="damaged"):
        read_shard(cut)
    with pytest.raises(InputError, match="newer gsvc"):
        read_shard(newer)
    pool = SamplePool(tmp_path, 10, seed=0)
    pool.fill()
    assert len(pool) == 2 and len(pool.told) == 2
    with pytest.raises(InputError, match="no samples"):
        SamplePool(tmp_path / "none", 10, seed=0).fill()


def test_a_full_disk_leaves_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="space"):
        write_shard(tmp_path / "a.tar", some_samples(1))
    assert not list(tmp_path.iterdir())


def test_merged_blocks_give_what_trained_ones_give() -> None:
    torch.manual_seed(1)
    network = Restorer((16, 24), (2, 1))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    inputs = torch.rand(2, 3, 32, 48) * 2 - 1, torch.rand(2, 1, 32, 48), some_conditions()
    trained, merged = network(*inputs), network.merged()(*inputs)
    assert trained.shape == (2, 3, 3, 32, 48)
    assert torch.allclose(trained, merged, atol=1e-5)
    assert float(trained.detach().abs().mean()) > 1e-3


def test_bfloat16_and_float32_agree() -> None:
    torch.manual_seed(1)
    network = Restorer((16, 24), (2, 1))
    torch.nn.init.normal_(network.leave.weight, std=0.02)
    inputs = torch.rand(2, 3, 32, 32) * 2 - 1, torch.rand(2, 1, 32, 32), some_conditions()
    exact = network(*inputs).detach()
    with torch.autocast("cpu", torch.bfloat16):
        low = network(*inputs).detach().float()
    assert float((exact - low).abs().max()) < 0.05 * float(exact.abs().max())


def some_conditions() -> torch.Tensor:
    return conditions_of(torch.tensor([0.9, 1.0]), torch.tensor([1.0, 0.5]), torch.tensor([0, 3]))


def test_an_untrained_network_leaves_the_picture_and_the_best_mixture_is_found() -> None:
    picture = torch.rand(2, 3, 32, 32) * 2 - 1
    nothing = Restorer((8,), (1,))(picture, torch.zeros(2, 1, 32, 32), some_conditions())
    assert float(nothing.detach().abs().max()) == 0
    residuals = torch.randn(2, 3, 3, 32, 32, requires_grad=True)
    weights = torch.tensor([[0.2, -0.5, 1.0], [1.0, 0.0, 0.3]])
    found = best_mixture(picture, residuals, mixed(picture, residuals, weights).detach(), ridge=0)
    assert torch.allclose(found, weights, atol=1e-3)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert residuals.grad is not None and bool(torch.isfinite(residuals.grad).all())


def test_distances_are_least_where_pictures_agree() -> None:
    torch.manual_seed(0)
    truth = torch.rand(2, 3, 64, 64) * 2 - 1
    moved = truth.roll(2, 3)
    texture = WassersteinDistortion(some_frozen())
    narrow, wide = torch.zeros(2), torch.full((2,), 4.0)
    assert float(fidelity(truth, truth).max()) < 0.05 < float(fidelity(moved, truth).min())
    assert float(texture(truth, truth, wide).max()) < 1e-6
    # The same texture a little to the side: less of a difference where it looks wide.
    assert bool((texture(moved, truth, wide) < texture(moved, truth, narrow)).all())


def test_the_exported_job_goes_on_after_a_kill(work: Path, run_job: RunJob) -> None:
    code, told = run_job("--steps", "2")
    assert code == 0 and "a new job" in told and "ended at step 2" in told
    assert (work / CHECKPOINT).stat().st_size < 8_000_000
    # Killed while it wrote: a half file beside the whole one, or the newest one damaged.
    (work / f"fresh.{CHECKPOINT}.part").write_bytes(b"half")
    (work / BEFORE).write_bytes((work / CHECKPOINT).read_bytes())
    (work / CHECKPOINT).write_bytes(b"damaged")
    code, told = run_job("--steps", "3")
    assert code == 0 and "left out" in told and "going on from step 2" in told
    state, job = read_checkpoint(work / CHECKPOINT)
    assert job["step"] == 3 and job["progress"]["samples"] == 3
    assert set(state) == {"weights", "average", "first", "second"}
    told = loaded(STARTER, "starter").status(work)
    assert "does not run" in told and "2 shards" in told


def test_a_newer_checkpoint_or_no_samples_stop_it_with_a_line(work: Path, run_job: RunJob) -> None:
    weights = {"weights.a": torch.zeros(1)}
    about = {"job": json.dumps({"format": 99, "step": 1})}
    write_tensors(work / CHECKPOINT, weights, about, 10_000)
    code, told = run_job("--steps", "1")
    assert code == 1 and "newer gsvc" in told
    (work / CHECKPOINT).unlink()
    for shard in (work / "samples").iterdir():
        shard.unlink()
    code, told = run_job("--steps", "1")
    assert code == 1 and "no samples" in told


def test_what_was_learned_is_kept_whole(
    work: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = loaded(STARTER, "starter")
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    whole = {name: torch.full((2,), 0.5) for name in ("a", "b")}
    state = {part: whole for part in ("weights", "average", "first", "second")}
    write_checkpoint(work, state, {"step": 7, "network": {"widths": [8], "depths": [1]}})
    header = "time,step,samples,samples_a_second,core_hours,hours,rate,loss\n"
    (work / "log.csv").write_text(header + "2026-01-01 00:00:00,7,14,3.5,0.1,0.2,1e-3,0.9\n")
    module.main(["keep", "--work", str(work)])
    kept, job = read_checkpoint(tmp_path / "kept" / CHECKPOINT)
    assert job["step"] == 7 and kept["average"].keys() == whole.keys() and not kept["weights"]
    assert module.main(["status", "--work", str(work)]) == 0
    assert "step 7, 0.1 hours of a core" in capsys.readouterr().out


@pytest.mark.slow
def test_the_file_for_a_gpu_trains_and_scores(work: Path) -> None:
    write_shard(work / "samples" / "000001.tar", some_samples(8, side=160))
    write_shard(work / "samples" / "000000.tar", some_samples(2, side=160, held=True))
    write_app(work / "train_gpu.py", "beside.gpu")
    shape = ["--device", "cpu", "--batch", "8", "--crop", "64"]
    command = [sys.executable, str(work / "train_gpu.py"), str(work), "--seconds", "3", *shape]
    subprocess.run(command, check=True, timeout=120)
    state, job = read_checkpoint(work / "restorer.safetensors")
    Restorer(**job["network"]).load_state_dict(state["average"])
    rows = (work / "restorer.csv").read_text().splitlines()
    assert job["step"] > 0 and any(",best," in row for row in rows)
