"""Scores of decoded clips in one metric."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import isfinite
from traceback import format_exception

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import GsvcError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.bench.named import make_metric
from gsvc.eval.bench.record import Scores
from gsvc.eval.metrics.base import Metric


def score(
    name: str,
    version: str,
    clip: TestClip,
    tests: Sequence[Sequence[Picture]],
    indices: Sequence[int],
) -> list[Scores]:
    """The metric `name` on each decoded clip at the frames `indices`; a failure becomes a gap."""
    start = time.perf_counter()
    try:
        metric = _metric(name)
        values = metric.measure(clip, tests, indices)
        if values.shape != (len(tests), len(indices) if metric.per_frame else 1):
            raise RuntimeError(f"{name} gave values of shape {values.shape}")
        seconds = (time.perf_counter() - start) / len(tests)
        nothing = getattr(metric, "nothing", Metric.nothing)  # a user's class may lack it
        return [replace(_scores(row, version, nothing), seconds=seconds) for row in values]
    except Exception as error:  # noqa: BLE001
        if len(tests) == 1:
            return [Scores(None, version=version, gap=reason(error), traceback=traceback_of(error))]
    # One of them may be to blame: the others get their numbers.
    return [score(name, version, clip, [one], indices)[0] for one in tests]


def traceback_of(error: BaseException) -> str:
    """Where an error comes from; empty for one of gsvc's, whose text says it all."""
    return "" if isinstance(error, GsvcError) else "".join(format_exception(error))


def reason(error: BaseException) -> str:
    """One line for a failure."""
    text = " ".join(str(error).split())
    if isinstance(error, GsvcError):
        return text
    return f"internal error: {type(error).__name__}: {text}"


def _scores(values: NDArray[np.float64], version: str, nothing: str) -> Scores:
    plain = [float(value) if isfinite(value) else None for value in values]
    finite = [value for value in plain if value is not None]
    if not finite:
        return Scores(None, version=version, gap=nothing)
    return Scores(sum(finite) / len(finite), plain, version)


_metric = cache(make_metric)
