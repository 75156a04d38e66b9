"""The latent cache: what may be reused, how much disk it takes, and what damage does to it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsvc import ConfigError
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.latent_cache import (
    Embedding,
    LatentCache,
    embedding,
    reuse_depth,
    similarity,
    steps_at,
)

MUCH = 10**8
STEPS = 50


def scene(seed: int = 0, shift: int = 0, count: int = 5) -> NDArray[np.uint8]:
    """A window: blobs that move by `shift` pixels a frame."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    still = np.repeat(np.repeat(small, 16, axis=0), 16, axis=1)
    return np.stack([np.roll(still, shift * frame, axis=1) for frame in range(count)])


def vector(angle: float) -> Embedding:
    """Two of them are as similar as the cosine of the difference of their angles."""
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


def walk(cache: LatentCache, wanted: Embedding, start: float = 1.0) -> tuple[Tensor, int]:
    """A loop of 50 steps: its latents, and how many steps it took."""
    taken = []

    def step(state: Tensor, number: int) -> Tensor:
        taken.append(number)
        return state * 0.9 + number * 1e-3

    loop = cache.begin("it", wanted, torch.full((64,), start), STEPS)
    end = loop.state
    for number in range(loop.done, STEPS):
        end = step(end, number)
        loop.passed(number + 1, end)
    loop.keep()
    assert taken == list(range(STEPS - len(taken), STEPS))
    return end, len(taken)


@pytest.mark.parametrize(
    ("alike", "depth"),
    [(0.96, 25), (0.95, 20), (0.91, 20), (0.86, 15), (0.76, 10), (0.66, 5), (0.65, 0), (-1.0, 0)],
)
def test_the_more_alike_the_later_a_loop_begins(alike: float, depth: int, tmp_path: Path) -> None:
    assert reuse_depth(alike) == depth
    cache = LatentCache(tmp_path, MUCH)
    walk(cache, vector(0))
    _, taken = walk(cache, vector(float(np.arccos(alike)) - 1e-4 * (alike == 0.96)))
    assert taken in {STEPS - depth, STEPS - reuse_depth(alike + 1e-6)}  # cosines are rounded


def test_short_loops_save_the_same_share() -> None:
    assert [steps_at(25, steps) for steps in (1, 2, 4, 8, 20)] == [0, 1, 2, 4, 10]


def test_at_capacity_0_results_are_those_without_a_cache(tmp_path: Path) -> None:
    cache = LatentCache(tmp_path / "none", 0)
    ends = [walk(cache, vector(0))[0] for _ in range(2)]
    plain = torch.full((64,), 1.0)
    for number in range(STEPS):
        plain = plain * 0.9 + number * 1e-3
    assert torch.equal(ends[0], plain) and torch.equal(ends[1], plain)
    assert cache.report().hits == 0 and not (tmp_path / "none").exists()


def test_a_miss_changes_nothing_and_is_kept(tmp_path: Path) -> None:
    first, taken = walk(LatentCache(tmp_path, MUCH), vector(0))
    assert taken == STEPS
    cache = LatentCache(tmp_path, MUCH)  # as another process opens it
    again, taken = walk(cache, vector(0))
    assert taken == 25 and torch.allclose(first, again, atol=1e-6)
    told = cache.report()
    assert (told.loops, told.hits, told.steps, told.saved, told.entries) == (1, 1, 50, 25, 1)
    assert "1 of 1 loops" in str(told) and told.size == size_of(tmp_path)


def test_other_kinds_are_not_mixed(tmp_path: Path) -> None:
    cache = LatentCache(tmp_path, MUCH)
    walk(cache, vector(0))
    assert cache.begin("another", vector(0), torch.ones(64), STEPS).done == 0
    assert cache.begin("it", vector(0), torch.ones(64), 20).done == 0


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/*"))


def test_the_capacity_holds_and_the_least_used_go(tmp_path: Path) -> None:
    walk(LatentCache(tmp_path, MUCH), vector(0))
    one = size_of(tmp_path)
    cache = LatentCache(tmp_path, 2 * one + 10)
    walk(cache, vector(1.5))
    walk(cache, vector(0))  # used again: the other one goes
    walk(cache, vector(3.0))
    assert size_of(tmp_path) == 2 * one and cache.report().evicted == 1
    assert walk(cache, vector(0))[1] == 25
    assert walk(LatentCache(tmp_path, one - 1), vector(4.5))[1] == STEPS
    assert size_of(tmp_path) == 0


@pytest.mark.parametrize("damage", ["cut off", "empty", "another file", "changed"])
def test_damaged_entries_are_passed_by_and_go(damage: str, tmp_path: Path) -> None:
    plain, _ = walk(LatentCache(tmp_path, MUCH), vector(0))
    (entry,) = tmp_path.glob("*/*.safetensors")
    whole = entry.read_bytes()
    changed = whole[:-1300] + bytes(byte ^ 1 for byte in whole[-1300:])  # all that is no header
    entry.write_bytes(
        {"cut off": whole[:-5], "empty": b"", "another file": b"?" * 99, "changed": changed}[damage]
    )
    cache = LatentCache(tmp_path, MUCH)
    end, taken = walk(cache, vector(0))
    assert taken == STEPS and torch.equal(end, plain)
    assert cache.report().damaged == 1 and not entry.exists()
    assert walk(cache, vector(0))[1] == 25


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    walk(LatentCache(tmp_path, MUCH), vector(0))
    (entry,) = tmp_path.glob("*/*.safetensors")
    left = entry.with_name(".0123456789abcdef")
    left.write_bytes(b"half")
    LatentCache(tmp_path, MUCH)
    assert not left.exists() and entry.exists()


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds other files: name an empty or new folder"):
        LatentCache(tmp_path, MUCH)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Exception, match="no permission to write"):
        LatentCache(tmp_path / "new", MUCH)


def test_a_full_disk_stops_the_cache_and_not_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = LatentCache(tmp_path, MUCH)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert walk(cache, vector(0))[1] == STEPS
    assert "going on without the cache" in caplog.text
    assert not list(tmp_path.glob("*/*"))


PROCESS = """
import sys
import numpy as np, torch
from gsvc.decoders.keyframes.latent_cache import LatentCache
torch.set_num_threads(1)
cache = LatentCache(sys.argv[1], int(sys.argv[2]))
rng = np.random.default_rng(int(sys.argv[3]))
for _ in range(40):
    seed = int(rng.integers(6))
    vector = np.zeros(6, np.float32)
    vector[seed] = 1
    start = torch.full((2000,), float(seed))
    step = lambda state, number: state * 0.9 + number
    loop = cache.begin("it", vector, start, 50)
    end = loop.state
    for number in range(loop.done, 50):
        end = step(end, number)
        loop.passed(number + 1, end)
    loop.keep()
    plain = start
    for number in range(50):
        plain = step(plain, number)
    assert torch.allclose(end, plain, rtol=1e-4), seed
    told = cache.report()
    assert told.damaged == 0 and told.size <= int(sys.argv[2]), told
print(told.hits)
"""


@pytest.mark.slow
def test_two_processes_share_a_cache(tmp_path: Path) -> None:
    """Both write, evict and read at once: nothing torn is read, and the capacity holds."""
    three = 3 * 5 * 2000 * 4 + 3000
    command = [sys.executable, "-c", PROCESS, str(tmp_path), str(three)]
    both = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE) for seed in (1, 2)]
    hits = [int(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert min(hits) > 0
    assert len(list(tmp_path.glob("*/*.safetensors"))) <= 3 and not list(tmp_path.glob("*/.*"))


def test_windows_are_told_apart_by_motion_place_and_light() -> None:
    def alike(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> float:
        return similarity(embedding(left), embedding(right))

    still, moving = scene(), scene(shift=6)
    noise = np.random.default_rng(1).integers(-4, 5, still.shape)
    noisy = np.clip(still.astype(int) + noise, 0, 255).astype(np.uint8)
    assert alike(still, still) == pytest.approx(1, abs=1e-5)
    assert alike(still, noisy) > 0.95
    assert alike(moving, scene(shift=-6)) < 0.75
    assert alike(still, moving) < 0.75
    assert alike(still, scene(seed=1)) < 0.75
    assert alike(still, still // 3) < 0.95


def key_of(picture: NDArray[np.uint8]) -> Keyframe:
    return Keyframe(picture, np.zeros(picture.shape[:2], np.float32), 0.8, 1.0)


def test_the_shipped_refiner_begins_where_it_was(tmp_path: Path) -> None:
    refiner = load_refiner("compact:nano")
    refine: Callable[..., NDArray[np.uint8]] = refiner.refine  # type: ignore[union-attr]
    plain = refine(key_of(scene()[0]), steps=4, seed=1)
    refiner.latents = LatentCache(tmp_path, MUCH)
    assert np.array_equal(refine(key_of(scene()[0]), steps=4, seed=1), plain)
    again = refine(key_of(scene()[0]), steps=4, seed=1)
    assert refiner.latents.report().saved == 2
    assert np.abs(again.astype(int) - plain).max() <= 1
    other = refine(key_of(scene(seed=3)[0]), steps=4, seed=1)
    refiner.latents = LatentCache(tmp_path, 0)
    assert np.array_equal(refine(key_of(scene(seed=3)[0]), steps=4, seed=1), other)
