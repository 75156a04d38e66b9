"""The C library's memory: kept between a network's layers, or given back as soon as it is freed.

glibc hands blocks of 32 MiB and more straight back to the kernel, so each large layer of a network
is paid for again page by page: 15 % of ST-LPIPS's time. Elsewhere than on glibc these do nothing.
"""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's numbers in <malloc.h>
_LARGEST_KEPT, _SMALLEST_RETURNED = 2**30, 2**16
_ELSEWHERE = OSError, TypeError, AttributeError  # no such library, no such function


def keep_freed_memory() -> None:
    """From now on this process reuses what it freed; for workers that do nothing but such work."""
    with suppress(*_ELSEWHERE):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> None:
    """From now on blocks of 64 KiB and more go back to the system when they are freed."""
    with suppress(*_ELSEWHERE):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _SMALLEST_RETURNED)
