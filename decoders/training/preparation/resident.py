"""Processes that share a GPU. Like `guard`, all that a worker of Ray imports."""

import os
from pathlib import Path

from gsvc.decoders.training.preparation.guard import Guard

_MPS_PIPE, _MPS_USUAL = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"
_MPS_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"


def mps_environment(limit: int) -> dict[str, str]:
    """What a process is told of the Multi-Process Service of CUDA, where it runs: kernels of
    several processes then run at once, in place of taking turns. Empty where it does not run.

    `limit`: bytes of the GPU that the process may take.
    """
    pipe = os.environ.get(_MPS_PIPE, _MPS_USUAL)
    if not (Path(pipe) / "control").exists():
        return {}
    return {_MPS_PIPE: pipe, _MPS_LIMIT: f"0={limit >> 20}M"}


class Resident:
    """An actor of Ray Data whose helper holds a model on its share of a GPU."""

    def __init__(self, operators: bytes, limits: dict[str, float], memory: int) -> None:
        """As of `Guard.carry`. `memory`: bytes of the GPU that it may take."""
        self._guard = Guard({**os.environ, **mps_environment(memory)})
        self._operators, self._limits = operators, limits

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        """A row with its item."""
        return {"item": self._guard.carry(self._operators, self._limits, row["item"])}
