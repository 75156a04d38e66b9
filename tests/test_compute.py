import subprocess
import sys

import numpy as np
import torch
from torch import nn

from gsvc.eval.compute import PeakMemory, count_flops


def test_a_convolution_costs_two_operations_a_multiply_add() -> None:
    layer = nn.Conv2d(3, 8, 5, padding=2)
    counted = count_flops(lambda: layer(torch.zeros(1, 3, 32, 48)))
    assert counted == 2 * 3 * 5 * 5 * 8 * 32 * 48


def test_operators_that_the_counter_does_not_know_count_nothing() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.SiLU(), nn.Linear(16, 2))
    counted = count_flops(lambda: network(torch.zeros(1, 3, 16, 16)).flatten().exp())
    assert counted == 2 * 3 * 4 * 256 + 2 * 64 * 16 * 2


def test_flops_are_seen_inside_inference_mode_too() -> None:
    layer = nn.Linear(10, 20)

    def work() -> None:
        with torch.inference_mode():
            layer(torch.zeros(7, 10))

    counted = count_flops(work)
    assert counted == 2 * 7 * 10 * 20


def test_peak_memory_is_that_of_the_largest_moment() -> None:
    with PeakMemory() as memory:
        for _ in range(3):
            block = np.ones(100_000_000, np.uint8)
            block += 1
            del block
    assert memory.peak is not None
    assert 90_000_000 < memory.peak < 200_000_000


def test_memory_that_was_freed_and_kept_is_not_taken_for_memory_in_use() -> None:
    # In a process of its own: the setting stays for the rest of a process's life.
    script = """
import numpy as np
from gsvc.encoders.frame_buffer import keep_freed_memory
from gsvc.eval.compute import PeakMemory
keep_freed_memory()
block = np.ones(150_000_000, np.uint8); del block
with PeakMemory() as memory:
    block = np.ones(100_000_000, np.uint8); del block
print(memory.peak)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert 90_000_000 < int(done.stdout) < 200_000_000
