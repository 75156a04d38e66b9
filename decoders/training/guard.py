"""Operators in a process of their own: a file that hangs or kills it ends nothing else.

This module is all that a worker of Ray imports. Libraries and models are in its helper, a process
that carries operators out for it, item after item.
"""

import atexit
import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import GsvcError

if TYPE_CHECKING:
    from gsvc.decoders.training.pipeline import Operator

ENDED = "ended its process"
"""Of the reason why an item is set aside that did so to a helper."""
_DONE = b"\0"
"""What an item's bytes follow; anything else is the name of the operator that begins."""
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)
_HELPER = "gsvc.decoders.training.guard"
_START = 300.0  # seconds that a helper may take to import what operators need
_TRIES = 2
_OUTSIDE = frozenset((signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
"""What a process is ended with by others: by who stops the job or the machine, or for want of
memory, which may be anybody's."""
_PAUSES = 1.0, 3.0, 10.0
"""Seconds after each end of that kind. Where the worker itself is being ended, as a moment later
than its helper, it dies meanwhile, and Ray gives the item to another one."""


class Guard:
    """Carries operators out in a helper, which it ends where one takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None

    def carry(self, operators: bytes, limits: Mapping[str, float], item: bytes) -> bytes:
        """An item after all operators; both are pickled.

        `limits`: seconds that each may take, by name. An item that makes one take longer, that ends
        the helper twice, or over which others end it three times, comes back set aside. Raises
        GsvcError where no helper can start.
        """
        why, seen = "", Counter[str]()
        while not seen[_LATE] and seen[_DIED] < _TRIES and seen[_KILLED] < len(_PAUSES):
            try:
                return self._ask(operators, limits, (operators, item, ""))
            except _Failure as failure:
                why = str(failure)
                if failure.kind == _KILLED:
                    time.sleep(_PAUSES[seen[_KILLED]])
                seen[failure.kind] += 1
        try:
            return self._ask(operators, limits, (operators, item, why))
        except _Failure as failure:
            raise GsvcError(f"the process for operators does not stay: {failure}") from failure

    def _ask(
        self, operators: bytes, limits: Mapping[str, float], message: tuple[bytes, bytes, str]
    ) -> bytes:
        name = ""
        try:
            line = self._started()
            line.send_bytes(pickle.dumps(message))
            while True:
                limit = limits.get(name, _START)
                if not line.poll(limit):
                    self.close()
                    raise _Failure(_LATE, f"{name or 'start'} took longer than {limit:g} s")
                told = line.recv_bytes()
                if told.startswith(_DONE):
                    return told[len(_DONE) :]
                name = told.decode()
        except (EOFError, OSError) as error:
            code = self.close()
            how = f"signal {-code}" if code < 0 else f"code {code}"
            if -code in _OUTSIDE:
                raise _Failure(_KILLED, f"{name or 'start'} {ENDED} ({how})") from error
            if not name:
                raise GsvcError(f"the process for operators does not start ({how})") from error
            raise _Failure(_DIED, f"{name} {ENDED} ({how})") from error

    def _started(self) -> Connection:
        if self._line is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", _HELPER, str(theirs.fileno()), str(os.getpid())],
                    pass_fds=[theirs.fileno()],
                )
            self._line = Connection(ours.detach())
            self._line.send_bytes(pickle.dumps(sys.path))
        return self._line

    def close(self) -> int:
        """End the helper; returns how it ended: an exit code, or minus the number of a signal."""
        code = 0
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)  # it may be about to end
            self._process.kill()
            code = self._process.wait()
        self._line = self._process = None
        return code


_LATE, _DIED, _KILLED = "late", "died", "killed"
"""An operator is still at it; the helper is gone; somebody ended the helper."""


class _Failure(Exception):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@cache
def own_guard() -> Guard:
    """The one of this process."""
    guard = Guard()
    atexit.register(guard.close)
    return guard


def carry_row(
    row: dict[str, bytes], operators: bytes, limits: Mapping[str, float]
) -> dict[str, bytes]:
    """A row of Ray Data after all operators, by the guard of the worker."""
    return {"item": own_guard().carry(operators, limits, row["item"])}


class Resident:
    """An actor of Ray Data whose helper holds a model on its share of a GPU."""

    def __init__(self, operators: bytes, limits: dict[str, float]) -> None:
        """As of `Guard.carry`."""
        self._guard = Guard()
        self._operators, self._limits = operators, limits

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        return {"item": self._guard.carry(self._operators, self._limits, row["item"])}


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends, however it does: on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def help_guard(descriptor: int, parent: int) -> None:
    """Carry out what a guard asks for, until the other end closes."""
    die_with_parent()
    if os.getppid() != parent:
        return  # it ended before it could be noticed
    with Connection(descriptor) as line:
        sys.path[:] = pickle.loads(line.recv_bytes())
        while True:
            try:
                message = line.recv_bytes()
            except (EOFError, ConnectionError):
                return
            _answer(line, *pickle.loads(message))


def _answer(line: Connection, operators: bytes, data: bytes, error: str) -> None:
    from gsvc.decoders.training.pipeline import carried_out, in_row, of_row

    item = of_row({"item": data})
    item.error = item.error or error
    for operator in _operators(operators):
        line.send_bytes(operator.name.encode())
        carried_out(operator, item)
    line.send_bytes(_DONE + in_row(item)["item"])


@cache
def _operators(data: bytes) -> "list[Operator]":
    operators: list[Operator] = pickle.loads(data)
    return operators


if __name__ == "__main__":
    help_guard(int(sys.argv[1]), int(sys.argv[2]))
