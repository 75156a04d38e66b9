"""Operators that hang, end their process, or note where they ran; for tests of the pipeline."""

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from gsvc.decoders.training.pipeline import ClipItem, Item, OnCard, Operator, Resources

HANGS, EXITS = 1, 2
"""Numbers of items."""
_SMALL, _CPU = Resources(memory=1_000_000), OnCard()


def _break(item: Item) -> None:
    """Hangs at one item and ends its process at another one."""
    if item.number == HANGS:
        time.sleep(60)
    if item.number == EXITS:
        os._exit(3)


FRAGILE = Operator("fragile", _break, Resources(memory=1_000_000, seconds=3.0))


def mortal(folder: Path, deaths: int, *, worker: bool) -> Operator:
    """Has its helper killed over an item, and with `worker` a moment later the worker, as on a
    machine that goes away: as often as `deaths` says. Each death leaves a file in the folder."""
    return Operator("mortal", partial(_die, folder, deaths, worker), _SMALL)


def _die(folder: Path, deaths: int, worker: bool, item: Item) -> None:
    file = folder / str(len(list(folder.iterdir())))
    if item.number == EXITS and int(file.name) < deaths:
        file.touch()
        if worker:
            subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {os.getppid()}"])
        os.kill(os.getpid(), signal.SIGKILL)


def noting(name: str, resources: Resources = _SMALL) -> Operator:
    """Takes a while, and notes when, and the GPUs that its process sees."""
    return Operator(name, partial(_note, name), resources)


def _note(name: str, item: ClipItem, place: OnCard = _CPU) -> None:
    """As measures `NAME begun`, `NAME ended`, `NAME gpus`."""
    item.measures[f"{name} begun"] = time.time()
    time.sleep(0.3)
    item.measures[f"{name} ended"] = time.time()
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    item.measures[f"{name} gpus"] = float(place.device == "cuda" and seen == "0")
