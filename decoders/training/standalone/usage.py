"""How busy the machine is, and how much it computes."""

import os
import platform
import subprocess
import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_PATIENCE = 5.0


class Usage:
    """Utilisation since it was last asked."""

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._wall, self._busy = time.monotonic(), time.process_time()

    def told(self) -> str:
        """Of the GPU, as nvidia-smi has it; else the processors that this process kept busy."""
        if self._is_gpu:
            return f"GPU {_gpu_percent()}"
        wall, busy = time.monotonic(), time.process_time()
        cores = (busy - self._busy) / max(1e-9, wall - self._wall)
        self._wall, self._busy = wall, busy
        return f"{cores:.1f} of {os.cpu_count()} cores"


def _gpu_percent() -> str:
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return "utilisation not known"
    return " ".join(f"{line.strip()} %" for line in done.stdout.splitlines())


def device_told(device: torch.device) -> str:
    """What it is, for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} of {os.cpu_count()} CPU cores ({platform.machine()})"


def flops_of(run: Callable[[], object]) -> int:
    """Floating-point operations of a run, a multiplication and an addition being two."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())
