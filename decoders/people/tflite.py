"""Inference of TensorFlow Lite networks with LiteRT, on one CPU thread."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import MissingDependencyError, MissingModelError
from gsvc.datasets.models import PULL_COMMAND, model_path

Array = NDArray[np.float32]


class Network:
    """A model of the registry with one float32 input; not thread-safe.

    The constructor raises MissingModelError when the file is missing or damaged,
    MissingDependencyError when LiteRT is not installed.
    """

    def __init__(self, name: str) -> None:
        self._interpreter = _interpreter(name)
        entry = self._interpreter.get_input_details()[0]
        self._input = int(entry["index"])
        self._outputs = [int(each["index"]) for each in self._interpreter.get_output_details()]
        self.input_shape: tuple[int, ...] = tuple(int(side) for side in entry["shape"])

    def __call__(self, values: Array) -> list[Array]:
        """Run on `values` of shape `input_shape`; gives copies of all outputs in model order."""
        self._interpreter.set_tensor(self._input, values)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


def _interpreter(name: str) -> Any:
    path = model_path(name)
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as cause:
        raise MissingDependencyError(
            f"the extractors need LiteRT ({cause}); run: pip install ai-edge-litert"
        ) from cause
    try:
        with _without_notices():
            # One thread: pictures are small, and results must not depend on the machine.
            interpreter = Interpreter(model_path=str(path), num_threads=1)
            interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as cause:
        reason = str(cause).strip().partition("\n")[0] or "no reason given"
        raise MissingModelError(
            f"model {name} cannot be loaded ({reason}); delete {path} and run: {PULL_COMMAND}"
        ) from cause
    return interpreter


@contextmanager
def _without_notices() -> Iterator[None]:
    """Drop LiteRT's notices, which C++ code writes to file descriptor 2 without a switch.

    Everything else written there meanwhile is passed on afterwards.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            other = [line for line in caught if not line.startswith(b"INFO: ")]
            os.write(2, b"".join(other))


def sigmoid(logits: Array) -> Array:
    """The logistic function, computed in double precision; float32 of the same shape."""
    return (1 / (1 + np.exp(-np.clip(logits, -100, 100).astype(np.float64)))).astype(np.float32)
