"""What machine this is."""

import os
import platform
from pathlib import Path


def machine() -> dict[str, str | int]:
    """Processor model, cores, memory in bytes, operating system."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
