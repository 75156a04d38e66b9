"""Seconds and memory of work on a device, and the most arithmetic that the device can do."""

import gc
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import torch

from gsvc.eval.compute import PeakMemory

_REPEATS, _MOST_REPEATS, _SECONDS = 3, 50, 1.0
"""Work is repeated so often at least, and at most; between them, for so long."""
_LONG = 5.0
"""Seconds of one go from which one more is enough."""
_SIDE = {"cpu": 1024, "cuda": 8192}
"""Of the matrices that are multiplied."""


class Timing(NamedTuple):
    """What work took."""

    seconds: float
    """The median of its repeats, after one that warms the device up."""
    repeats: int
    """How many there were."""
    memory: int | None
    """Bytes at the peak beside what was held before; None where the system does not tell."""


def timed(work: Callable[[], object], device: str) -> Timing:
    """Do the work a few times on a device and wait for each to end."""
    memory, first = _first(work, device)
    seconds = [_seconds(work, device)]
    while not _is_enough(seconds, first):
        seconds.append(_seconds(work, device))
    return Timing(statistics.median(seconds), len(seconds), memory)


def matrix_peak(device: str) -> float:
    """Operations a second of a matrix product, a multiply-add being two: the best of half a second.

    In float16 on a GPU, in float32 on a CPU, as the networks run there.
    """
    kind = torch.device(device).type
    side = _SIDE[kind]
    dtype = torch.float16 if kind == "cuda" else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in "ab")
    best = min(_seconds(lambda: a @ b, device) for _ in range(3))
    for _ in range(min(_MOST_REPEATS, round(0.5 / best))):
        best = min(best, _seconds(lambda: a @ b, device))
    return 2 * side**3 / best


def _first(work: Callable[[], object], device: str) -> tuple[int | None, float]:
    """The first go: bytes at its peak, and seconds."""
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        seconds = _seconds(work, device)
        return torch.cuda.max_memory_allocated(device) - before, seconds
    with PeakMemory() as memory:
        seconds = _seconds(work, device)
    return memory.peak, seconds


def _seconds(work: Callable[[], object], device: str) -> float:
    wait(device)
    begin = perf_counter()
    work()
    wait(device)
    return perf_counter() - begin


def wait(device: str) -> None:
    """Until the device has done all that it was told to."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def _is_enough(seconds: list[float], first: float) -> bool:
    if first > _LONG and seconds[0] > _LONG:
        return True
    done = len(seconds)
    return done >= _MOST_REPEATS or (done >= _REPEATS and sum(seconds) >= _SECONDS)
