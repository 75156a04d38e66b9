"""Energy: counters of processors (RAPL) and NVIDIA's GPUs (NVML), and what sending a bit costs.

NVML is asked of the driver's own library. The cost of a sent bit is a stated model's.
"""

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gsvc.codec.bitstream.errors import ConfigError

_LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"


class GpuCounters:
    """The GPUs whose energy is counted: since Volta. None where there is no driver."""

    def __init__(self, library: Any = None) -> None:
        """`library`: in place of the driver's."""
        self._library = library or _opened()
        self._devices = [one for one in self._found() if self._joules(one) is not None]

    def __len__(self) -> int:
        return len(self._devices)

    def read(self) -> Sequence[float]:
        """Joules of each since its driver was loaded, of all programs.

        0 of one that no longer tells.
        """
        return [self._joules(device) or 0.0 for device in self._devices]

    def _found(self) -> list[ctypes.c_void_p]:
        library, count = self._library, ctypes.c_uint()
        if library is None or library.nvmlInit_v2():
            return []
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
        devices = [ctypes.c_void_p() for _ in range(count.value)]
        return [
            device
            for index, device in enumerate(devices)
            if not library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device))
        ]

    def _joules(self, device: ctypes.c_void_p) -> float | None:
        """None where the GPU does not count."""
        millijoules = ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(
            device, ctypes.byref(millijoules)
        )
        return None if failed else millijoules.value / 1000


def _opened() -> Any:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


POWERCAP = Path("/sys/class/powercap")
"""Where Linux has the counters."""


@dataclass(frozen=True)
class Radio:
    """What a sender's radio takes for a bit: a model, not a measurement on this machine."""

    joules_per_bit: float
    """While sending; keeping the link open comes on top."""
    source: str
    """Where the number is from."""


_HUANG = "Huang et al., MobiSys 2012, table 4"
RADIOS = {
    "lte": Radio(438.39e-9, f"{_HUANG}: LTE uplink, 438.39 mW per Mbit/s"),
    "wifi": Radio(283.17e-9, f"{_HUANG}: Wi-Fi uplink, 283.17 mW per Mbit/s"),
    "lora": Radio(0.120 * 3.3 / 5470, "Semtech SX1276: 120 mA at 3.3 V, +20 dBm; SF7: 5.47 kbit/s"),
}
"""By name; the energy of a bit that is sent."""


class EnergyMeter:
    """Context manager over the counters of Intel and AMD processors (RAPL), and of NVIDIA's GPUs
    (NVML) where there are such, of all programs here.

    Raises ConfigError where the processors' are missing or may not be read: a GPU's alone are not
    what a job takes.
    """

    def __init__(self, folder: Path = POWERCAP, gpus: GpuCounters | None = None) -> None:
        """`folder`: Linux's power capping, with a folder for each package of processors; `gpus`:
        in place of those that the driver tells."""
        self._counters = [
            one / "energy_uj" for one in sorted(folder.glob("*-rapl:*")) if _whole(one)
        ]
        if not self._counters:
            raise ConfigError(
                "no energy counters here (RAPL): leave out --energy, or state "
                "the power with --watts"
            )
        self._gpus = gpus or GpuCounters()
        self.joules = 0.0
        """Between entry and exit."""
        self._before, self._before_gpus = self._read(), self._gpus.read()

    def __enter__(self) -> Self:
        self._before, self._before_gpus = self._read(), self._gpus.read()
        return self

    @property
    def sources(self) -> str:
        """What is counted, for people."""
        processors, gpus = len(self._counters), len(self._gpus)
        return f"{processors} of processors (RAPL), {gpus or 'none'} of GPUs (NVML)"

    def __exit__(self, *_: object) -> None:
        for counter, before, now in zip(self._counters, self._before, self._read(), strict=True):
            wrapped = _number(counter.parent / "max_energy_range_uj") if now < before else 0
            self.joules += (now - before + wrapped) / 1e6
        for was, is_now in zip(self._before_gpus, self._gpus.read(), strict=True):
            self.joules += max(0.0, is_now - was)  # a driver that is loaded again begins at 0

    def _read(self) -> Sequence[int]:
        return [_number(counter) for counter in self._counters]


def _whole(folder: Path) -> bool:
    """Whether it counts a package; its parts have a second number: intel-rapl:0:1."""
    return folder.name.count(":") == 1


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} cannot be read: let this user read it with sudo chmod a+r {file}, or leave "
            "out --energy"
        ) from error
