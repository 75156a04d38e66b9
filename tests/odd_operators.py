"""Operators that hang, end their process, or note where they ran; for tests of the pipeline."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gsvc.decoders.training.pipeline import ClipItem, Item, Network, OnCard, Resources

HANGS, EXITS = 1, 2
"""Numbers of items."""
_SMALL = Resources(memory=1_000_000)


class Fragile:
    """Hangs at one item and ends its process at another one."""

    name = "fragile"
    resources = Resources(memory=1_000_000, seconds=3.0)

    def __call__(self, item: Item) -> None:
        """Notes nothing."""
        if item.number == HANGS:
            time.sleep(60)
        if item.number == EXITS:
            os._exit(3)


@dataclass
class Mortal:
    """Has its helper killed over an item, and a moment later the worker, as on a machine that goes
    away: as often as `deaths` says."""

    folder: Path
    """Each death leaves a file there."""
    deaths: int
    worker: bool
    """Whether the worker dies as well."""
    name = "mortal"
    resources = _SMALL

    def __call__(self, item: Item) -> None:
        """Notes nothing."""
        file = self.folder / str(len(list(self.folder.iterdir())))
        if item.number == EXITS and int(file.name) < self.deaths:
            file.touch()
            if self.worker:
                subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {os.getppid()}"])
            os.kill(os.getpid(), signal.SIGKILL)


def noting(name: str, resources: Resources = _SMALL) -> Network:
    """Takes a while, and notes when, and the GPUs that its process sees."""
    return Network(name, partial(_note, name), resources)


def _note(name: str, item: ClipItem, place: OnCard) -> None:
    """As measures `NAME begun`, `NAME ended`, `NAME gpus`."""
    item.measures[f"{name} begun"] = time.time()
    time.sleep(0.3)
    item.measures[f"{name} ended"] = time.time()
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    item.measures[f"{name} gpus"] = float(place.device == "cuda" and seen == "0")
