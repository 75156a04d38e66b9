"""Pretrained back ends with the latent cache: where loops begin, and what that leaves alone."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsvc.decoders.keyframes.latent_cache import LatentCache
from pretrained_windows import window_of

GIVEN: Mapping[str, int] = {"steps": 10, "seed": 1}


def near(a: Any, b: Any) -> bool:
    """Within a few levels: Wan's scheduler looks back at steps that a late loop left out."""
    return float(np.abs(a - b).mean()) < 4


@pytest.mark.parametrize(
    "name",
    ["ltx", *(pytest.param(name, marks=pytest.mark.slow) for name in ("wan-v2v", "wan-vace"))],
)
def test_a_loop_begins_where_its_like_was(
    name: str, tiny: Callable[[str], Any], tmp_path: Path
) -> None:
    backend, window, calls = tiny(name), window_of(9), []
    network = backend._loaded(1).transformer
    network.register_forward_pre_hook(lambda *_: calls.append(0))

    def restored(frames: Any = window[0]) -> tuple[Any, int]:
        calls.clear()
        shown = np.stack(backend.restore(frames, *window[1:], **GIVEN)).astype(int)
        return shown, len(calls)

    plain, taken = restored()
    assert taken == 10
    backend.latents = LatentCache(tmp_path / "none", 0)
    assert np.array_equal(restored()[0], plain)
    backend.latents = LatentCache(tmp_path / "some", 10_000_000)
    first, taken = restored()
    assert taken == 10
    backend.latents = LatentCache(tmp_path / "others", 10_000_000)
    others = restored(window[0] + np.uint8(1))[0]
    backend.latents = LatentCache(tmp_path / "some", 10_000_000)
    again, left = restored()
    assert left == 5 and backend.latents.report().saved == 5
    assert near(again, first)
    other, left = restored(window[0] + np.uint8(1))
    assert left == 5 and near(other, others)
    unlike, left = restored(255 - window[0][::-1])
    assert left == 10 and not np.array_equal(unlike, first)
    assert not near(plain, first)  # another noise
    backend.latents = None
    assert np.array_equal(restored()[0], plain)  # the scheduler is whole again


PROCESS = """
import sys
import numpy as np
from gsvc.decoders.keyframes.latent_cache import LatentCache
from gsvc.decoders.keyframes.backends import load_refiner
from pretrained_windows import window_of

folder, capacity, shift = sys.argv[1:]
backend, (frames, keys, confidence) = load_refiner("wan-v2v"), window_of(9, (32, 32))
backend.latents = LatentCache(folder, int(capacity))
for turn in range(4):
    shown = np.roll(frames, int(shift) * turn, 0)
    assert len(backend.restore(shown, keys, confidence, steps=4, seed=1)) == 9
print(backend.latents.report().size)
"""


@pytest.mark.slow
def test_two_processes_restore_with_one_cache(tiny: Callable[[str], Any], tmp_path: Path) -> None:
    """Both write and evict; what is left serves a third."""
    backend, window = tiny("wan-v2v"), window_of(9, (32, 32))
    backend.latents = LatentCache(tmp_path, 10_000_000)
    backend.restore(*window, steps=4, seed=1)
    capacity = backend.latents.report().size * 2 + 100
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PROCESS, str(tmp_path), str(capacity)]
    both = [subprocess.Popen([*command, shift], stdout=subprocess.PIPE, env=env) for shift in "23"]
    sizes = [int(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert all(0 < size <= capacity for size in sizes)
    backend.latents = LatentCache(tmp_path, capacity)
    backend.restore(*window, steps=4, seed=1)
    told = backend.latents.report()
    assert told.damaged == 0 and told.size <= capacity
