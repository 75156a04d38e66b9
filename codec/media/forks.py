"""Forks: what has threads of its own lets them go before the process forks.

A forked process lacks the threads of its parent, and would wait for them for ever.
"""

import os
import sys
from weakref import WeakSet


class HasThreads:
    """Something that can be made again when it is needed next."""

    def __init__(self) -> None:
        _living.add(self)

    def let_go(self) -> None:
        """Forget what has threads."""
        raise NotImplementedError


_living = WeakSet[HasThreads]()


def _let_go() -> None:
    for one in tuple(_living):
        one.let_go()


if sys.platform != "win32":
    os.register_at_fork(before=_let_go)
