"""Processor time of a step of a run: unlike a clock, it hardly sees what else a machine does."""

import sys
from typing import Self


class ProcessorTime:
    """Context manager: `seconds` that all cores spent on this process and on its ended children.

    None where the system does not count them.
    """

    seconds: float | None = None

    def __enter__(self) -> Self:
        self._before = _spent()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.seconds = (_spent() or 0.0) - self._before


def _spent() -> float | None:
    if sys.platform == "win32":
        return None
    import resource

    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
