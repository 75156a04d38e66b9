"""Memory that was freed, given back to the system: glibc keeps what threads and coders had."""

import ctypes
from functools import cache
from typing import Any


def release_freed_memory() -> None:
    """So that resident memory is memory in use. Elsewhere than on glibc nothing happens."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
