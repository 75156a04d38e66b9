"""Everything that training draws at random, out of one seed."""

from collections.abc import Mapping
from random import Random

import torch
from torch import Tensor

_STEPS_APART = 1_000_003
"""Between the seeds of steps."""


class Dice:
    """Draws for each sample on the device, where they are used; for a whole batch in Python."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self.device = device
        self._generator = torch.Generator(device).manual_seed(seed)
        self._random = Random(seed)

    def uniform(self, *shape: int) -> Tensor:
        """Float, from 0 up to below 1."""
        return torch.rand(shape, generator=self._generator, device=self.device)

    def normal(self, *shape: int) -> Tensor:
        """Float, of deviation 1."""
        return torch.randn(shape, generator=self._generator, device=self.device)

    def below(self, ends: Tensor | int, count: int) -> Tensor:
        """`count` integers from 0 up to below `ends`, one end for all or one for each."""
        return (self.uniform(count) * ends).long()

    def is_true(self, count: int, probability: float = 0.5) -> Tensor:
        """`count` decisions."""
        return self.uniform(count) < probability

    def one_of(self, shares: Mapping[str, float]) -> str:
        """A key, as often as its share says: for a whole batch."""
        return self._random.choices(list(shares), list(shares.values()))[0]

    def whole(self, first: int, end: int) -> int:
        """An integer from `first` up to below `end`: for a whole batch."""
        return self._random.randrange(first, end)


class StepDice(Dice):
    """Draws for the batch of all processes, and gives each its part; begins anew at every step.

    So a step depends on the seed and its number alone.
    """

    def __init__(self, device: torch.device, seed: int, rank: int, processes: int) -> None:
        super().__init__(device, seed)
        self._seed, self.rank, self.processes = seed, rank, processes

    def begin(self, step: int) -> None:
        """Of a step."""
        seed = self._seed + _STEPS_APART * (step + 1)
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
