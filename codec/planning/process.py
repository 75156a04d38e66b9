"""What this process has taken so far: time and memory, as the profile counts them."""

import os
import time
from pathlib import Path

CPU = "--cpu"
"""First argument of `gsvc.codec.planning.timed_run`: seconds are the processor's."""
_BEGAN = time.monotonic()


def process_seconds() -> float:
    """Since this process started; where the system does not tell, since this module was loaded."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _BEGAN
    return max(time.monotonic() - _BEGAN, up - ticks / os.sysconf("SC_CLK_TCK"))


def peak_memory() -> int | None:
    """Bytes that this program held at most; None where the system does not tell.

    Not `ru_maxrss`, which remembers who started it.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
