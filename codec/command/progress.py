"""What a command shows while it works: a line with the time left, JSON objects, or nothing."""

import logging
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from gsvc.codec.api.reports import JsonLines, seconds_left
from gsvc.codec.command.arguments import given_target
from gsvc.codec.media.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from gsvc.codec.api.reports import Progress, Report

_LINE_SECONDS = 0.1


class ProgressLine:
    """One line on a terminal, written over and over, and taken away at the end."""

    def __init__(self, file: TextIO, verb: str) -> None:
        self._file, self._verb = file, verb
        self._began = monotonic()
        self._shown: float | None = None

    def __call__(self, progress: "Progress") -> None:
        now = monotonic()
        if self._shown is not None and now - self._shown < _LINE_SECONDS:
            return
        self._shown = now
        self._file.write(f"\r\x1b[K{self._text(progress, now - self._began)}")
        self._file.flush()

    def clear(self) -> None:
        """Leave the line empty for what comes after."""
        if self._shown is not None:
            self._file.write("\r\x1b[K")
            self._file.flush()

    def _text(self, progress: "Progress", elapsed: float) -> str:
        of = "" if progress.total is None else f"/{progress.total}"
        done = int(progress.frames + progress.under_way)
        rate = done / elapsed if elapsed > 0 else 0.0
        text = f"{self._verb} frame {done}{of}, {rate:.1f} frames/s"
        left = seconds_left(done, progress.total, elapsed)
        if left is not None:
            minutes, seconds = divmod(round(left), 60)
            text += f", {minutes}:{seconds:02d} left"
        return text


def json_lines(options: Namespace) -> JsonLines:
    """JSON goes to standard output, or to standard error where that carries the stream or video."""
    carries_data = "target" in options and given_target(options) == STANDARD_OUTPUT
    return JsonLines(sys.stderr if carries_data else sys.stdout)


def tell_event(options: Namespace, event: str, **values: object) -> None:
    """What a long job came to: a JSON object, or a line of names and values."""
    if options.json:
        json_lines(options).put(event, **values)
    else:
        print(event, *(f"{name} {value}" for name, value in values.items()), flush=True)


def has_watcher(options: Namespace) -> bool:
    """Whether somebody sits at a terminal and wants to be told."""
    return sys.stderr is not None and sys.stderr.isatty() and not options.quiet


def say(options: Namespace, line: str) -> None:
    """Write over the line on a terminal."""
    if has_watcher(options):
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


@contextmanager
def without_warnings(quiet: bool) -> Iterator[None]:
    """Keep warnings back, if `quiet`."""
    log = logging.getLogger("gsvc")
    level = log.level
    log.setLevel(logging.ERROR if quiet else level)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def shown_progress(options: Namespace, verb: str) -> "Iterator[Report | None]":
    """What to tell progress to, as --json, --quiet and the terminal want it; None: nobody looks."""
    with without_warnings(options.quiet), _progress(options, verb) as progress:
        yield progress


@contextmanager
def _progress(options: Namespace, verb: str) -> "Iterator[Report | None]":
    if options.json and not options.quiet:
        yield json_lines(options)
    elif not has_watcher(options):
        yield None
    else:
        line = ProgressLine(sys.stderr, verb)
        try:
            yield line
        finally:
            line.clear()
