"""What `gsvc data prepare` shows on a terminal while it works."""

import shutil
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from gsvc.codec.command.progress import seconds_left, tell_event

if TYPE_CHECKING:
    from gsvc.decoders.training.preparation.live import Watched

LIVE = "live"
"""In the folder of shards, while somebody watches."""
_EVERY = 0.5
_FIRST, _LAST = "survey", "file"
"""Operators by which sources and clips are counted."""


class WorkLine:
    """A line with what is done, the throughput of each operator, and how busy the cores are."""

    def __init__(self, file: TextIO, watched: "Watched", sources: int, cores: float) -> None:
        self._file, self._watched, self._cores = file, watched, cores
        self._began = monotonic()
        self._verb, self._counted, self._total = "survey: source", _FIRST, sources
        self._since: dict[str, float] = {_FIRST: self._began}
        self._lock = threading.Lock()

    def making(self, clips: int) -> None:
        """The survey is over: so many clips are to be made."""
        self._verb, self._counted, self._total = "prepare: clip", _LAST, clips
        self._since[_LAST] = monotonic()

    def show(self) -> None:
        """Write it over the line before."""
        with self._lock:
            self._watched.look()
            columns = shutil.get_terminal_size().columns
            self._file.write(f"\r\x1b[K{self.text(monotonic())[: columns - 1]}")
            self._file.flush()

    def clear(self) -> None:
        """Leave the line empty for what comes after."""
        with self._lock:
            self._file.write("\r\x1b[K")
            self._file.flush()

    def text(self, now: float) -> str:
        """Throughput is that of one worker: what is slowest is the smallest."""
        watched, elapsed = self._watched, now - self._since[self._counted]
        done = watched.items.get(self._counted, 0)
        text = f"{self._verb} {done}/{self._total}, {done / max(elapsed, 1e-9):.2g} a second"
        left = seconds_left(done, self._total, elapsed)
        if left is not None:
            minutes, seconds = divmod(round(left), 60)
            text += f", {minutes}:{seconds:02d} left"
        busy = watched.cpu / max(now - self._began, 1e-9)
        text += f", {busy:.1f} of {self._cores:g} cores busy"
        rates = [
            f"{name} {watched.items[name] / max(wall, 1e-9):.2g}/s"
            for name, wall in watched.wall.items()
            if (name == _FIRST) == (self._counted == _FIRST)
        ]
        return " | ".join([text, *rates])


@contextmanager
def shown_work(
    options: Namespace, out: Path, sources: int, cores: float
) -> "Iterator[WorkLine | None]":
    """The line, written twice a second; None where nobody sits at a terminal."""
    from gsvc.decoders.training.preparation.live import Watched

    if not is_watched(options):
        yield None
        return
    live = out / LIVE
    shutil.rmtree(live, ignore_errors=True)
    live.mkdir(parents=True)
    line, over = WorkLine(sys.stderr, Watched(live), sources, cores), threading.Event()

    def look() -> None:
        while not over.wait(_EVERY):
            line.show()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        thread.join()
        line.clear()
        shutil.rmtree(live, ignore_errors=True)


def is_watched(options: Namespace) -> bool:
    """Whether somebody sits at a terminal and reads text."""
    return not options.json and sys.stderr is not None and sys.stderr.isatty()


def tell_beside(options: Namespace, line: WorkLine | None, event: str, **values: object) -> None:
    """`tell_event`, with the line out of its way."""
    if line is not None:
        line.clear()
        clips = values.get("clips")
        if event == "making" and isinstance(clips, int):
            line.making(clips)
    tell_event(options, event, **values)
