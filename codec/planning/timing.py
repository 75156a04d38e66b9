"""Files encoded or decoded in a process of their own, and what the process took."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from gsvc.codec.errors import GsvcError
from gsvc.codec.planning.process import CPU


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
