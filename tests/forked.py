"""A function in a forked process."""

import sys
from collections.abc import Callable
from multiprocessing import get_context

import pytest

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")


def exit_code_of_fork(work: Callable[[], None], seconds: float) -> int | None:
    """None if it is not done in time."""
    child = get_context("fork").Process(target=work)
    child.start()
    child.join(seconds)
    code = child.exitcode
    child.kill()
    return code
