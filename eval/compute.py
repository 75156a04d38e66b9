"""What decoding costs: floating point operations, bytes of weights, memory at the peak, joules."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gsvc.eval.allocator import release_freed_memory

if TYPE_CHECKING:
    import torch

_RAPL = Path("/sys/class/powercap")
_STATM = Path("/proc/self/statm")

_NO_ARITHMETIC = frozenset(
    [
        "_conj",
        "_reshape_alias",
        "_to_copy",
        "_unsafe_view",
        "alias",
        "arange",
        "as_strided",
        "cat",
        "chunk",
        "clone",
        "constant_pad_nd",
        "contiguous",
        "copy_",
        "detach",
        "empty",
        "empty_like",
        "empty_strided",
        "expand",
        "fill_",
        "flatten",
        "full",
        "full_like",
        "gather",
        "index",
        "index_select",
        "lift_fresh",
        "narrow",
        "new_empty",
        "new_full",
        "new_zeros",
        "ones",
        "ones_like",
        "permute",
        "pixel_shuffle",
        "pixel_unshuffle",
        "reflection_pad2d",
        "repeat",
        "replication_pad2d",
        "reshape",
        "scalar_tensor",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "stack",
        "t",
        "transpose",
        "unbind",
        "unfold",
        "unsqueeze",
        "view",
        "zero_",
        "zeros",
        "zeros_like",
    ]
)
"""Operators that move or make values only: nothing to count."""


@dataclass(frozen=True)
class Flops:
    """Floating point operations, 2 a multiply-add, and the operators with arithmetic that torch's counter
    does not know: element-wise ones, sums, normalisation, sampling. Each is named once, sorted."""

    count: int
    not_counted: tuple[str, ...]


def count_flops(work: Callable[[], object]) -> Flops:
    """Run `work` once and count what torch does in this thread meanwhile.

    Convolutions, matrix products and attention are counted, as by `torch.utils.flop_counter`. Work
    outside torch (OpenCV, NumPy, FFmpeg) is not seen.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    unknown: set[str] = set()

    class Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Notes the operators that go past the counter."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            packet = func.overloadpacket
            if packet not in flop_registry:
                # In inference mode composite operators ("linear") arrive whole.
                with self:
                    taken_apart = func.decompose(*args, **(kwargs or {}))
                if taken_apart is not NotImplemented:
                    return taken_apart
            name = packet.__name__
            if packet not in flop_registry and name not in _NO_ARITHMETIC:
                unknown.add(name)
            return func(*args, **(kwargs or {}))

    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter, Names():  # type: ignore[no-untyped-call]
        work()
    return Flops(int(counter.get_total_flops()), tuple(sorted(unknown)))


def model_bytes(networks: "Iterable[torch.nn.Module]") -> int:
    """Bytes of the parameters and buffers as they lie in memory; shared ones count once."""
    tensors = {
        tensor.data_ptr(): tensor.nbytes
        for network in networks
        for tensor in (*network.parameters(), *network.buffers())
    }
    return sum(tensors.values())


class PeakMemory:
    """Context manager: `peak` is the most resident memory of this process inside it, in bytes over that
    at its beginning; None where /proc does not tell.

    Looked at every few milliseconds, so a shorter peak may be missed.
    """

    def __init__(self, interval: float = 0.005) -> None:
        self.peak: int | None = None
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = 0

    def __enter__(self) -> Self:
        release_freed_memory()
        before = resident_bytes()
        if before is not None:
            self._before, self.peak = before, 0
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._look()
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._interval):
            self._look()

    def _look(self) -> None:
        now = resident_bytes()
        if now is not None and self.peak is not None:
            self.peak = max(self.peak, now - self._before)


def resident_bytes() -> int | None:
    """Resident memory of this process; None where /proc does not tell (not Linux)."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()


@dataclass(frozen=True)
class Energy:
    """Joules that the machine's processor packages used, everything that runs on them included.

    `joules` is None when they are not measured, and `gap` says why; nothing is ever estimated.
    """

    joules: float | None
    seconds: float
    gap: str = ""


class EnergyMeter:
    """Context manager over the processor's own energy counters (RAPL, through Linux's powercap files)."""

    def __init__(self, root: Path = _RAPL) -> None:
        self.energy: Energy | None = None
        self._counters = sorted(root.glob("intel-rapl:[0-9]")) if root.is_dir() else []
        self._before: list[int] = []
        self._gap = ""
        self._start = 0.0

    def __enter__(self) -> Self:
        try:
            self._before = [_number(counter / "energy_uj") for counter in self._counters]
            self._gap = "" if self._counters else "no RAPL counters on this machine"
        except OSError:
            self._gap = "the RAPL counters may not be read: run as root or allow reading energy_uj"
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._start
        if self._gap:
            self.energy = Energy(None, seconds, self._gap)
            return
        used = 0
        for counter, before in zip(self._counters, self._before, strict=True):
            difference = _number(counter / "energy_uj") - before
            # The counter begins anew at its limit.
            used += difference + (difference < 0) * _number(counter / "max_energy_range_uj")
        self.energy = Energy(used / 1e6, seconds)


def _number(path: Path) -> int:
    return int(path.read_text())
