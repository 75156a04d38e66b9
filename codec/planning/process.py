"""Time and memory of processes: of this one so far, and of one that encodes or decodes files."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from gsvc.codec.bitstream.errors import GsvcError

CPU = "--cpu"
"""First argument of `gsvc.codec.planning.timed_run`: seconds are the processor's."""
_BEGAN = time.monotonic()


def process_seconds() -> float:
    """Since this process started; where the system does not tell, since this module was loaded."""
    try:
        ticks = int(
            Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        )
        up = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _BEGAN
    return max(time.monotonic() - _BEGAN, up - ticks / os.sysconf("SC_CLK_TCK"))


def peak_memory() -> int | None:
    """Bytes that this program held at most; None where the system does not tell.

    Not `ru_maxrss`, which remembers who started it.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return None
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@dataclass(frozen=True)
class Timed:
    """What one process took."""

    total: float
    """Seconds from its start to its end."""
    files: Sequence[Mapping[str, Any]]
    """Of each file: "seconds", "memory" (bytes at the peak so far), "joules" or None."""

    @property
    def start(self) -> float:
        """Seconds beside those of its files."""
        return self.total - float(sum(one["seconds"] for one in self.files))


def timed(
    settings: Mapping[str, Any], folder: Path, sources: Sequence[str], *, cpu: bool = False
) -> Timed:
    """Encode or decode `sources` into `folder`; see `gsvc.codec.planning.timed_run`.

    `cpu`: seconds of the processor, on a machine that does other work too. Raises GsvcError where
    the process fails.
    """
    command = [sys.executable, "-m", "gsvc.codec.planning.timed_run", *([CPU] if cpu else [])]
    command += [json.dumps(dict(settings)), str(folder), *sources]
    began = _children_seconds() if cpu else perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    total = (_children_seconds() if cpu else perf_counter()) - began
    if done.returncode:
        raise GsvcError((done.stderr.strip().splitlines() or ["a process failed"])[-1])
    return Timed(total, [json.loads(line) for line in done.stdout.splitlines()])


def _children_seconds() -> float:
    """Of the processor, by all processes that this one started and that have ended."""
    now = os.times()
    return float(now.children_user + now.children_system)
