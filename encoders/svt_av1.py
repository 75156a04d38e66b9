"""SVT-AV1's parameters for temporal layers, and what opening it needs.

It must not print, and must not take over the machine. It prints a banner unless `SVT_LOG` says
otherwise. Run by root (as in most containers), it gives the thread that opens it, and every thread
that it starts, real-time priority 99: nothing else on those cores runs until it is done, and the
caller keeps the priority for the rest of its life.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

OFFSET_LAYERS = 6
"""Temporal layers that it takes offsets for."""


def quantiser_offsets(key: int, layers: Sequence[int]) -> str:
    """Parameters that add to the quantiser's index, 0 to 255, by temporal layer.

    `key`: of intra pictures; `layers`: from the lowest, at least one; the last is repeated. Each is
    -64 to 63.
    """
    listed = [*layers, *[layers[-1]] * (OFFSET_LAYERS - len(layers))]
    text = f"[{','.join(map(str, listed))}]"
    return (
        f"aq-mode=0:use-fixed-qindex-offsets=1:key-frame-qindex-offset={key}"
        f":key-frame-chroma-qindex-offset={key}:qindex-offsets={text}:chroma-qindex-offsets={text}"
    )


@contextmanager
def quiet_and_ordinary() -> Iterator[None]:
    """Open an encoder inside this block: it prints nothing, as FFmpeg reports its errors, and the
    calling and new threads get the caller's old scheduling."""
    os.environ.setdefault("SVT_LOG", "0")
    if sys.platform != "linux":
        yield
        return
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    before = _threads()
    yield
    if os.sched_getscheduler(0) == policy:
        return
    os.sched_setscheduler(0, policy, parameter)
    for thread in _threads() - before:
        # One that has ended meanwhile needs nothing.
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, parameter)


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}
