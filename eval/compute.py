"""What running code costs: operations are counted, memory, energy and time measured."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.planning.process import POWERCAP, EnergyMeter, peak_memory
from gsvc.decoders.keyframes.refiner import RefinerCost
from gsvc.encoders.frame_buffer import malloc_trim

_NO_ARITHMETIC = frozenset((
    "_to_copy", "_unsafe_view", "arange", "cat", "clone", "constant_pad_nd", "contiguous",
    "copy_", "empty", "empty_like", "empty_strided", "fill_", "full", "full_like", "gather",
    "index", "index_select", "new_empty", "new_full", "new_zeros", "ones", "ones_like",
    "pixel_shuffle", "pixel_unshuffle", "reflection_pad2d", "repeat", "replication_pad2d",
    "scalar_tensor", "stack", "zero_", "zeros", "zeros_like",
))  # fmt: skip
"""Operators that only move or make values, beside those that torch knows to be views."""


@dataclass(frozen=True)
class Flops:
    """What a computation costs."""

    count: int
    """Floating-point operations; a multiply-add counts two."""
    not_counted: tuple[str, ...]
    """Operators that torch's counter does not know, sorted: sums, sampling, element-wise ones."""


def count_flops(work: Callable[[], object]) -> Flops:
    """Run `work` once and count what torch does in this thread meanwhile.

    `torch.utils.flop_counter` counts convolutions, matrix products and attention. Work outside
    torch (OpenCV, NumPy, FFmpeg) is not seen.
    """
    import torch
    from torch.utils import flop_counter

    count: Any = flop_counter.sdpa_flop_count

    def attention(query: Any, key: Any, value: Any, *_: object, **__: object) -> int:
        return int(count(query, key, value))

    # What torch's counter does not know before 2.15: attention as CPUs compute it.
    more = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention}
    unknown: set[str] = set()
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=more)
    with torch.no_grad(), counter, _note_unknown(unknown, set(counter.flop_registry)):
        work()
    return Flops(int(counter.get_total_flops()), tuple(sorted(unknown)))


def refiner_flops(cost: RefinerCost) -> tuple[int, Flops]:
    """Operations that come once, however many steps follow, and those of a step."""
    once = count_flops(cost.once).count if cost.once else 0
    return once, count_flops(cost.step)


def _note_unknown(unknown: set[str], known: set[Any]) -> AbstractContextManager[object]:
    """Adds the operators that pass the counter by, which knows those of `known`, to `unknown`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            packet = func.overloadpacket
            if packet not in known:
                # In inference mode composite operators ("linear") arrive whole.
                with self:
                    taken_apart = func.decompose(*args, **(kwargs or {}))
                if taken_apart is not NotImplemented:
                    return taken_apart
            name = packet.__name__
            if not (packet in known or func.is_view or name in _NO_ARITHMETIC):
                unknown.add(name)
            return func(*args, **(kwargs or {}))

    return Names()  # type: ignore[no-untyped-call]


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
