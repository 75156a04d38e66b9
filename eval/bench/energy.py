"""Energy of a step of a run: measured where nothing else is, or absent."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from gsvc.codec.errors import ConfigError
from gsvc.codec.planning.energy import POWERCAP, EnergyMeter


class StepEnergy:
    """Context manager: what the processor took meanwhile, by its own counters (RAPL).

    `joules` is None without counters or the right to read them, and where this process does not
    have all cores: the counters know processors, not programs, and other workers would count.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        """`folder`: as of `EnergyMeter`."""
        self._folder = folder
        self.joules: float | None = None
        self._meter: EnergyMeter | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if _has_all_cores():
            try:
                self._meter = self._stack.enter_context(EnergyMeter(self._folder))
            except ConfigError:
                self._meter = None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.joules = self._meter.joules if self._meter else None


def _has_all_cores() -> bool:
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) == os.cpu_count()
