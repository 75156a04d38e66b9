"""What a connection carries, by what waits to be sent over it: TCP tells its sender no more.

A queue that does not empty within a second is congestion (as in CoDel, RFC 8289): the least that
waited counts, because a large picture fills any queue for a moment.
"""

import struct
import sys
from asyncio import WriteTransport
from contextlib import suppress

from gsvc.codec.network.pilot import Reception

_SECONDS = 1.0
"""Between two measurements."""
_LEAST_RATE = 100.0
"""Bits per second: what carries less carries nothing."""


class Backlog:
    """Of one connection. Sample it several times a second."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._least = self._came = 0

    def sample(self, now: float, put: int, waiting: int) -> Reception | None:
        """Take the time in seconds, the bytes so far that are to be sent, and those of them that
        wait, here or in the system; gives what arrived in the last second, when one is over."""
        if self._since is None:
            self._since, self._least, self._came = now, waiting, put - waiting
            return None
        self._least = min(self._least, waiting)
        passed = now - self._since
        if passed < _SECONDS:
            return None
        came = 8 * (put - waiting - self._came) / passed
        under_way = 8 * self._least
        found = Reception(now, came, 0.0, under_way / max(_LEAST_RATE, came), under_way)
        self._since, self._least, self._came = now, waiting, put - waiting
        return found


def unsent(transport: WriteTransport) -> int:
    """Bytes that a transport and, where it tells (Linux), the system have not got through."""
    waiting = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if sys.platform == "linux" and connection is not None:
        import fcntl
        import termios

        with suppress(OSError, ValueError):  # it is closed
            told = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
            waiting += struct.unpack("i", told)[0]
    return waiting
