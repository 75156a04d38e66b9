"""What running code costs: operations are counted, memory, energy and time measured."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.planning.process import POWERCAP, EnergyMeter, peak_memory
from gsvc.decoders.keyframes.refiner import RefinerCost
from gsvc.encoders.frame_buffer import malloc_trim


def count_flops(work: Callable[[], object]) -> int:
    """Floating-point operations of running `work` once, a multiply-add being two.

    Of what torch computes in this thread, `torch.utils.flop_counter` counts convolutions, matrix
    products and attention. Work outside torch (OpenCV, NumPy, FFmpeg) is not seen.
    """
    import torch
    from torch.utils import flop_counter

    count: Any = flop_counter.sdpa_flop_count

    def attention(query: Any, key: Any, value: Any, *_: object, **__: object) -> int:
        return int(count(query, key, value))

    # What torch's counter does not know before 2.15: attention as CPUs compute it.
    more = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention}
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=more)
    with torch.no_grad(), counter:
        work()
    return int(counter.get_total_flops())


def refiner_flops(cost: RefinerCost) -> tuple[int, int]:
    """Operations that come once, however many steps follow, and those of a step."""
    return count_flops(cost.once) if cost.once else 0, count_flops(cost.step)


class PeakMemory:
    """Context manager: the peak of resident memory meanwhile; `peak_memory` counts anew."""

    peak: int | None = None
    """Bytes over the memory at entry; None where the system does not tell (not Linux)."""
    _before: int | None = None

    def __enter__(self) -> Self:
        malloc_trim()
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the peak so far
            self._before = peak_memory()
        return self

    def __exit__(self, *_: object) -> None:
        most = peak_memory()
        if most is not None and self._before is not None:
            self.peak = most - self._before


class StepCost:
    """Context manager: what the processor spent meanwhile.

    `seconds` are those of all cores for this process and its ended children; unlike a clock they
    hardly see what else a machine does. `joules` come from the processor's own counters (RAPL).
    They know processors and not programs: None where this process does not have all cores, and
    without counters or the right to read them.
    """

    def __init__(self, counters: Path = POWERCAP) -> None:
        """`counters`: a folder, as of `EnergyMeter`."""
        self._counters = counters
        self.joules: float | None = None
        self.seconds: float | None = None
        self._meter: EnergyMeter | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if sys.platform == "linux" and len(os.sched_getaffinity(0)) == os.cpu_count():
            with suppress(ConfigError):
                self._meter = self._stack.enter_context(EnergyMeter(self._counters))
        self._before = _spent()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.seconds = (_spent() or 0.0) - self._before
        self._stack.close()
        self.joules = self._meter.joules if self._meter else None


def _spent() -> float | None:
    """Seconds of the processor; None where the system does not count them."""
    if sys.platform == "win32":
        return None
    import resource

    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
