"""What is drawn at random in a step, whatever the number of processes."""

import torch
from torch import Tensor

from gsvc.decoders.training.standalone.dice import Dice

_APART = 1_000_003
"""Between the seeds of steps."""


class StepDice(Dice):
    """Draws for the batch of all processes, and gives each its part; begins anew at every step.

    So a step depends on the seed and its number alone.
    """

    def __init__(self, device: torch.device, seed: int, rank: int, processes: int) -> None:
        super().__init__(device, seed)
        self._seed, self.rank, self.processes = seed, rank, processes

    def begin(self, step: int) -> None:
        """Of a step."""
        seed = self._seed + _APART * (step + 1)
        self._generator.manual_seed(seed)
        self._random.seed(seed)

    def uniform(self, *shape: int) -> Tensor:
        """As of `Dice`; the first of `shape` is of samples."""
        return self._own(super().uniform(self.processes * shape[0], *shape[1:]))

    def normal(self, *shape: int) -> Tensor:
        """As of `Dice`; the first of `shape` is of samples."""
        return self._own(super().normal(self.processes * shape[0], *shape[1:]))

    def _own(self, drawn: Tensor) -> Tensor:
        return drawn.chunk(self.processes)[self.rank]
