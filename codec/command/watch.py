"""Watching over a session of `gsvc send` or `gsvc recv`: how it ends, and its statistics."""

import asyncio
import signal
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Protocol, TextIO

from gsvc.codec.command.progress import JsonLines
from gsvc.codec.network.stats import ReceiverStats, SenderStats
from gsvc.codec.output import STANDARD_OUTPUT, explain_failure

_STATS_SECONDS = 1.0
_SIGNALS = signal.SIGINT, signal.SIGTERM


class Session(Protocol):
    """What is watched over."""

    def stop(self) -> None: ...
    def stats(self) -> SenderStats | ReceiverStats: ...


def add_stats(parser: ArgumentParser) -> None:
    """--stats."""
    help = "a JSON object a second to a file, or - for standard output"
    parser.add_argument("--stats", metavar="FILE", help=help)


class Watch:
    """While a session runs, Ctrl-C ends it in good order (a second one at once), and every second
    its statistics are written."""

    def __init__(self, session: Session, target: str | None) -> None:
        """`target`: where statistics go, a path or - for standard output."""
        self._session, self._target = session, target

    async def __aenter__(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        self._file = self._open()
        self._task = asyncio.create_task(self._every_second())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self._put("done")
        if self._file and self._file is not sys.stdout:
            self._file.close()

    def _end(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        self._session.stop()

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(_STATS_SECONDS)
            self._put("stats")

    def _open(self) -> TextIO | None:
        if self._target is None or self._target == STANDARD_OUTPUT:
            return sys.stdout if self._target else None
        with explain_failure(self._target):
            return open(self._target, "w")

    def _put(self, kind: str) -> None:
        if self._file:
            JsonLines(self._file).put(kind, **asdict(self._session.stats()))
