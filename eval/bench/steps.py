"""What workers tell while they work: which step of which cells begins, and what one has taken."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

ENCODE, DECODE, SCORE = "encode", "decode", "score"


@dataclass(frozen=True)
class Step:
    """A part of the work on cells."""

    kind: str
    """`ENCODE`, `DECODE` or `SCORE`."""
    name: str
    """Of the codec or the metric."""
    cells: tuple[str, ...]
    """Keys of the cells; one may be there more than once."""
    seconds: float | None = None
    """What it took; None: it begins."""


Tell = Callable[[Step], None]


@contextmanager
def told(tell: Tell, kind: str, name: str, cells: Sequence[str]) -> Iterator[None]:
    """Tell that a step begins, and when it has ended; a step that fails does not end."""
    step = Step(kind, name, tuple(cells))
    tell(step)
    start = time.perf_counter()
    yield
    tell(replace(step, seconds=time.perf_counter() - start))
