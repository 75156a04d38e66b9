"""What glibc does with memory that this process frees. Other C libraries are left alone.

Once a block of some megabytes has been freed, glibc takes smaller ones from its heap, too. There a
block that stays keeps all free ones below it.
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


def malloc_trim() -> None:
    """Give freed memory back to the system, once."""
    with suppress(*_ELSEWHERE):
        ctypes.CDLL(None).malloc_trim(0)
