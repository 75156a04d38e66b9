"""NVIDIA's counters of energy (NVML), asked of the driver's own library."""

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

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
