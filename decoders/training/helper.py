"""The process that carries operators out for a `Guard`, item after item."""

import ctypes
import os
import pickle
import signal
import sys
from functools import cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsvc.decoders.training.shards import Operator

DONE = b"\0"
"""What an item's bytes follow; anything else is the name of the operator that begins."""
_PARENT_DEATH = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main(descriptor: int, parent: int) -> None:
    """Answer until the other end closes."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
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
    from gsvc.decoders.training.shards import carried_out, in_row, of_row

    item = of_row({"item": data})
    item.error = item.error or error
    for operator in _operators(operators):
        line.send_bytes(operator.name.encode())
        carried_out(operator, item)
    line.send_bytes(DONE + in_row(item)["item"])


@cache
def _operators(data: bytes) -> "list[Operator]":
    operators: list[Operator] = pickle.loads(data)
    return operators


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
