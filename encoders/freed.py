"""Memory that was freed, given back to the system: glibc keeps what threads and coders had."""

import ctypes
from functools import cache
from typing import Any


def give_back() -> None:
    """Where the C library can; elsewhere nothing happens."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
