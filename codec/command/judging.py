"""The judge of a plan's trial, in a process of its own: torch would stay in the encoder's."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING

from gsvc.codec.extras import EXTRAS

if TYPE_CHECKING:
    from gsvc.codec.planning.trial import Judge


@contextmanager
def trial_judge(wanted: bool = True) -> "Iterator[Judge | None]":
    """CVVDP, where gsvc[eval] is installed and it is wanted; else None."""
    if not wanted or EXTRAS["eval"].missing:
        yield None
        return
    from gsvc.eval.planning.judge import jod

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield lambda source, shown, rate: pool.submit(jod, source, shown, rate).result()
