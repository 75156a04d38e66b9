"""What steps really take, against what was foretold."""

import gc
import os
import threading
import time
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.layouts.choice import Devices, layout_of, layouts
from gsvc.decoders.training.layouts.needs import needs_of
from gsvc.decoders.training.layouts.trial import Trial
from gsvc.decoders.training.sharded.parallel import group_of
from gsvc.decoders.training.standalone.workers import processes
from gsvc.encoders.coding.lookahead_buffer import malloc_trim
from gsvc.eval.compute import return_freed_memory

_STEPS = 3
_EVERY = 0.002
_MB = 1e6


class _Peak:
    """The most resident memory while it is open, looked at every two milliseconds."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self.begun = self.bytes = _resident()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.is_set():
            self.bytes = max(self.bytes, _resident())
            time.sleep(_EVERY)

    def close(self) -> int:
        self._over.set()
        self._thread.join()
        return self.bytes - self.begun


def _resident() -> int:
    """Bytes of this process in memory, on Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def compare(trial: Trial, batch: int, name: str) -> dict[str, float]:
    """MB foretold and measured, of this process; measured is resident memory beyond what the
    process had before it made the networks.

    Raises ConfigError for a layout that there is not.
    """
    count = processes()
    wanted = "one" if count == 1 and name == "replicas" else name
    anything = Devices(count, 1 << 60, 1e9, 1e12)
    found = {each.name: each for each in layouts(needs_of(trial, wanted), batch * count, anything)}
    if wanted not in found:
        raise ConfigError(f"--check {name}: with {count} processes take {', '.join(found)}")
    foretold = found[wanted].memory
    layout, tensor, again = layout_of(wanted)
    group = group_of(layout, tensor)
    return_freed_memory()  # else what a step freed counts, too

    def steps(count: int, samples: int) -> None:
        learner = trial.learner(recomputes=again, layout=layout, tensor=tensor)
        for _ in range(count):
            trial.step(learner, samples)

    steps(1, group)  # what libraries load for the first step is no tensor
    gc.collect()
    malloc_trim()
    peak = _Peak()
    steps(_STEPS, batch * group)
    measured = peak.close()
    return {
        "foretold_mb": round(foretold / _MB, 1),
        "measured_mb": round(measured / _MB, 1),
        "ratio": round(foretold / measured, 3),
    }
